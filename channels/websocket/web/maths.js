/** Formulas: KaTeX is loaded when the first one is there, and builds DOM nodes, never HTML. */
import { html, signal, useLayoutEffect, useRef } from "./h.js";
import { whenIdle } from "./idle.js";

/** @type {import("./vendor/signals-core.js").Signal<any>} */
const engine = signal(null);
/** @type {Promise<void> | null} */
let loading = null;

const OPTIONS = { trust: false, maxExpand: 200, maxSize: 20, throwOnError: true, strict: "ignore", output: "htmlAndMathml" };
const FONTS = ["16px KaTeX_Main", "italic 16px KaTeX_Math", "16px KaTeX_Size1", "16px KaTeX_Size2"];

/** Load script, style and the usual fonts; formulas are drawn when all are there, so that they are drawn once. */
export function loadMaths() {
  loading ??= (async () => {
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = new URL("./vendor/katex/katex.css", import.meta.url).href;
    const styled = new Promise((done) => (style.onload = style.onerror = done));
    document.head.append(style);
    await Promise.all([import("./vendor/katex/katex.js"), styled]);
    const fonts = Promise.all(FONTS.map((font) => document.fonts.load(font))).catch(() => {});
    await Promise.race([fonts, new Promise((done) => setTimeout(done, 600))]);
    engine.value = /** @type {any} */ (globalThis).katex;
  })().catch(() => {
    loading = null; // offline: the source stays readable, the next formula tries again
  });
  return loading;
}

/** @param {{source: string, display: boolean}} props */
export function Maths({ source, display }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const katex = engine.value;
  useLayoutEffect(() => {
    if (!katex) {
      loadMaths();
      return undefined;
    }
    return whenIdle(() => {
      if (!place.current) return;
      const drawn = document.createElement("span");
      try {
        katex.render(source, drawn, { ...OPTIONS, displayMode: display });
        place.current.replaceChildren(...drawn.childNodes);
      } catch {
        place.current.textContent = source; // what KaTeX cannot read stays as it was written
        place.current.classList.add("source");
      }
    }, place.current);
  }, [katex, source, display]);
  return html`<span class=${display ? "maths display" : "maths"} ref=${place}></span>`;
}
