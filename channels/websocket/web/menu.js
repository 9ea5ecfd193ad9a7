/** A small menu behind a button: arrows move, Escape closes, a click elsewhere too. */
import { html, useEffect, useLayoutEffect, useRef, useSignal } from "./h.js";
import { icon } from "./icons.js";

const GAP = 4; // pixels between the button and its menu

/** @param {{label: string, items: {name: string, act: () => void, danger?: boolean}[], className?: string}} props */
export function Menu({ label, items, className = "" }) {
  const open = useSignal(false);
  const button = useRef(/** @type {HTMLElement | null} */ (null));
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const shown = open.value;
  // Fixed, because the list of sessions scrolls and would cut it off.
  useLayoutEffect(() => {
    if (!shown || !list.current || !button.current) return;
    const at = button.current.getBoundingClientRect();
    const size = list.current.getBoundingClientRect();
    const below = at.bottom + GAP + size.height < innerHeight;
    list.current.style.left = `${Math.max(8, Math.min(at.right - size.width, innerWidth - size.width - 8))}px`;
    list.current.style.top = `${below ? at.bottom + GAP : at.top - GAP - size.height}px`;
    /** @type {HTMLElement | null} */ (list.current.querySelector("[role=menuitem]"))?.focus();
  }, [shown]);
  useEffect(() => {
    if (!shown) return undefined;
    const outside = (/** @type {Event} */ event) => {
      const inside = event.target instanceof Node && (list.current?.contains(event.target) || button.current?.contains(event.target));
      if (!inside) open.value = false;
    };
    const gone = () => (open.value = false);
    addEventListener("pointerdown", outside);
    addEventListener("resize", gone);
    return () => {
      removeEventListener("pointerdown", outside);
      removeEventListener("resize", gone);
    };
  }, [shown]);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const rows = [...(list.current?.querySelectorAll("[role=menuitem]") ?? [])];
    const at = rows.indexOf(/** @type {Element} */ (document.activeElement));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + rows.length, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined) /** @type {HTMLElement} */ (rows[to % rows.length]).focus();
    else if (event.key === "Escape" || event.key === "Tab") {
      open.value = false;
      if (event.key === "Escape") button.current?.focus();
    } else return;
    if (event.key !== "Tab") event.preventDefault();
    event.stopPropagation();
  };
  return html`<button ref=${button} type="button" class=${`round quiet more ${className}`} aria-label=${label} aria-haspopup="menu" aria-expanded=${shown} onClick=${() => (open.value = !shown)}>
      ${icon("more")}
    </button>
    ${shown &&
    html`<ul ref=${list} class="menu-list" role="menu" aria-label=${label} onKeyDown=${keys}>
      ${items.map(
        ({ name, act, danger }) =>
          html`<li key=${name} role="none">
            <button
              type="button"
              role="menuitem"
              tabindex="-1"
              class=${danger ? "wrong" : ""}
              onClick=${() => {
                open.value = false;
                button.current?.focus();
                act();
              }}
            >
              ${name}
            </button>
          </li>`,
      )}
    </ul>`}`;
}
