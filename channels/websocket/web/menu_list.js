/** A menu that is open: arrows move, Escape closes, a click elsewhere too. */
import { html, useEffect, useLayoutEffect, useRef } from "./h.js";

const GAP = 4; // pixels between the button and its menu

/** @param {{label: string, items: import("./menu.js").MenuItem[], button: {current: HTMLElement | null}, onClose: (back: boolean) => void}} props */
export default function MenuList({ label, items, button, onClose }) {
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  // Fixed, because the list of sessions scrolls and would cut it off.
  useLayoutEffect(() => {
    if (!list.current || !button.current) return;
    const at = button.current.getBoundingClientRect();
    const size = list.current.getBoundingClientRect();
    const below = at.bottom + GAP + size.height < innerHeight;
    list.current.style.left = `${Math.max(8, Math.min(at.right - size.width, innerWidth - size.width - 8))}px`;
    list.current.style.top = `${Math.max(8, below ? at.bottom + GAP : at.top - GAP - size.height)}px`;
    /** @type {HTMLElement | null} */ (list.current.querySelector("[role=menuitem]"))?.focus();
  }, []);
  useEffect(() => {
    const outside = (/** @type {Event} */ event) => {
      const inside = event.target instanceof Node && (list.current?.contains(event.target) || button.current?.contains(event.target));
      if (!inside) onClose(false);
    };
    const gone = () => onClose(false);
    addEventListener("pointerdown", outside);
    addEventListener("resize", gone);
    addEventListener("wheel", gone, { passive: true });
    return () => {
      removeEventListener("pointerdown", outside);
      removeEventListener("resize", gone);
      removeEventListener("wheel", gone);
    };
  }, []);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const rows = [...(list.current?.querySelectorAll("[role=menuitem]") ?? [])];
    const at = rows.indexOf(/** @type {Element} */ (document.activeElement));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + rows.length, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined) /** @type {HTMLElement} */ (rows[to % rows.length]).focus();
    else if (event.key === "Escape" || event.key === "Tab") onClose(event.key === "Escape");
    else return;
    if (event.key !== "Tab") event.preventDefault();
    event.stopPropagation();
  };
  return html`<ul ref=${list} class="menu-list" role="menu" aria-label=${label} onKeyDown=${keys}>
    ${items.map(
      ({ name, act, danger }) =>
        html`<li key=${name} role="none">
          <button
            type="button"
            role="menuitem"
            tabindex="-1"
            class=${danger ? "wrong" : ""}
            onClick=${() => {
              onClose(true);
              act();
            }}
          >
            ${name}
          </button>
        </li>`,
    )}
  </ul>`;
}
