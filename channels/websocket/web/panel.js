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
  const wanted = panel.value;
  // Closed with the drawing, not after it: the next key belongs to what is below.
  useLayoutEffect(() => {
    if (!wanted) {
      if (!view.value) return undefined;
      view.value = null;
      box.current?.close();
      focusSoon("#message"); // what opened it may be gone
      return undefined;
    }
    let mine = true;
    Promise.all([PANELS[wanted.name](), styled()]).then(
      ([module]) => {
        if (!mine) return;
        view.value = module.default;
        if (!box.current?.open) box.current?.showModal();
      },
      () => {
        unloaded();
        close();
      },
    );
    return () => (mine = false);
  }, [wanted]);
  const outside = (/** @type {MouseEvent} */ event) => event.target === box.current && close();
  return html`<dialog ref=${box} class=${`panel panel-${wanted?.name ?? "none"}`} aria-label=${wanted?.title ?? "Panel"} onClose=${close} onMouseDown=${outside}>
    ${wanted && view.value && html`<${view.value} ...${wanted.props} onClose=${close} />`}
  </dialog>`;
}
