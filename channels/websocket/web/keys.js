/** Keys that work everywhere on the page. `keys_sheet.js` has the list that `?` shows. */
import { show } from "./panel.js";
import { current, open, openNew, toast } from "./store.js";

/** The session that is to get a new name. @type {(key: string) => void} */
let renames = () => {};
/** @param {(key: string) => void} action */
export const onRename = (action) => (renames = action);

/** @param {number} step */
function neighbour(step) {
  // As they stand in the list, which is in an order of its own.
  const rows = [...document.querySelectorAll(".rows a")].map((row) => decodeURIComponent(/** @type {HTMLAnchorElement} */ (row).hash.slice(1)));
  const at = rows.indexOf(current.value.key);
  const next = rows[at < 0 ? 0 : at + step];
  if (next) open(next);
}

addEventListener("keydown", (event) => {
  if (event.isComposing || document.querySelector("dialog[open]")) return;
  const typing = event.target instanceof Element && event.target.closest("input, textarea");
  const command = event.ctrlKey || event.metaKey;
  const key = event.key.toLowerCase();
  if (command && !event.shiftKey && !event.altKey && key === "k") show("search", "Search");
  else if (command && event.shiftKey && key === "o") openNew();
  else if (command && !typing && key === "z") toast.value?.undo?.();
  else if (event.altKey && !command && (key === "arrowup" || key === "arrowdown")) neighbour(key === "arrowup" ? -1 : 1);
  else if (key === "f2" && !event.defaultPrevented) renames(current.value.key);
  else if (typing || command || event.altKey) return;
  else if (key === "?") show("keys", "Keys");
  else if (key === "/") document.getElementById("message")?.focus();
  else return;
  event.preventDefault();
});
