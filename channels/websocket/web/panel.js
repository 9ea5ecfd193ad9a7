/** What opens over the page and is seldom needed: it is loaded when it is asked for. */
import { html, signal, useLayoutEffect, useRef, useSignal } from "./h.js";
import { focusSoon } from "./a11y.js";
import { unloaded } from "./later.js";

/** @typedef {{name: keyof typeof PANELS, title: string, props?: object}} Shown */

const PANELS = {
  search: () => import("./search.js"),
  goal: () => import("./goal_sheet.js"),
  keys: () => import("./keys_sheet.js"),
  office: () => import("./office.js"),
  steps: () => import("./trajectory.js"),
};

/** @type {import("./vendor/signals-core.js").Signal<Shown | null>} */
export const panel = signal(null);

/** @param {keyof typeof PANELS} name @param {string} title @param {object} [props] */
export function show(name, title, props = {}) {
  panel.value = { name, title, props };
}

export const close = () => (panel.value = null);

/** @type {Promise<unknown> | null} */
let style = null;

function styled() {
  return (style ??= new Promise((done) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = new URL("./panels.css", import.meta.url).href;
    link.onload = link.onerror = done;
    document.head.append(link);
  }));
}

export function Panel() {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  /** @type {import("./vendor/signals-core.js").Signal<any>} */
  const view = useSignal(/** @type {any} */ (null));
  const typed = useRef("");
  const wanted = panel.value;
  const drawn = view.value;
  // Closed with the drawing, not after it: the next key belongs to what is below.
  useLayoutEffect(() => {
    if (!wanted) {
      view.value = null;
      if (!box.current?.open && !drawn) return undefined;
      box.current?.close();
      focusSoon("#message"); // what opened it may be gone
      return undefined;
    }
    let mine = true;
    // Open at once, though nothing shows yet: what is typed from here on is for it, Escape too.
    box.current?.showModal();
    const early = (/** @type {KeyboardEvent} */ event) => {
      if (!view.value && event.key.length === 1 && !event.ctrlKey && !event.metaKey) typed.current += event.key;
    };
    typed.current = "";
    addEventListener("keydown", early);
    Promise.all([PANELS[wanted.name](), styled()]).then(
      ([module]) => {
        if (mine) view.value = module.default;
      },
      () => {
        unloaded();
        close();
      },
    );
    return () => {
      mine = false;
      removeEventListener("keydown", early);
    };
  }, [wanted]);
  useLayoutEffect(() => {
    if (drawn) /** @type {HTMLElement | null | undefined} */ (box.current?.querySelector("button, input"))?.focus();
  }, [drawn]);
  const outside = (/** @type {MouseEvent} */ event) => event.target === box.current && close();
  return html`<dialog ref=${box} class=${`panel panel-${wanted?.name ?? "none"}`} aria-label=${wanted?.title ?? "Panel"} onClose=${close} onMouseDown=${outside}>
    ${wanted && drawn && html`<${drawn} ...${wanted.props} typed=${typed.current} onClose=${close} />`}
  </dialog>`;
}
