/** A small menu behind a button; `menu_list.js` has the menu. */
import { html, useRef, useSignal } from "./h.js";
import { icon } from "./icons.js";
import { later } from "./later.js";

/** @typedef {{name: string, act: () => void, danger?: boolean}} MenuItem */

const MenuList = later(() => import("./menu_list.js"));

/** @param {{label: string, items: MenuItem[]}} props */
export function Menu({ label, items }) {
  const open = useSignal(false);
  const button = useRef(/** @type {HTMLElement | null} */ (null));
  const shown = open.value;
  const close = (/** @type {boolean} */ back) => {
    open.value = false;
    if (back) button.current?.focus();
  };
  return html`<button ref=${button} type="button" class="round quiet more" aria-label=${label} aria-haspopup="menu" aria-expanded=${shown} onClick=${() => (open.value = !shown)}>
      ${icon("more")}
    </button>
    ${shown && html`<${MenuList} label=${label} items=${items} button=${button} onClose=${close} />`}`;
}
