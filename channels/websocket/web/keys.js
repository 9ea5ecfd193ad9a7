/** Keys that work everywhere on the page. What they do is shown by `?`. */
import { show } from "./panel.js";
import { current, open, openNew, removed, sessions } from "./store.js";

/** @type {[string, string][]} */
export const KEYS = [
  ["Enter", "Send; while a turn runs, add to it"],
  ["Shift + Enter", "New line"],
  ["Esc", "Stop what runs"],
  ["/", "Commands; from elsewhere, go to the message box"],
  ["Ctrl + K", "Search all messages"],
  ["Ctrl + Shift + O", "New chat"],
  ["Alt + ↑ or ↓", "Previous or next session"],
  ["F2", "Rename the session"],
  ["Delete", "Delete the session in the list"],
  ["?", "This list"],
];

/** The session that is to get a new name. @type {(key: string) => void} */
let renames = () => {};
/** @param {(key: string) => void} action */
export const onRename = (action) => (renames = action);

/** @param {number} step */
function neighbour(step) {
  const rows = sessions.value.filter((row) => !removed.value.has(row.key));
  const at = rows.findIndex((row) => row.key === current.value.key);
  const next = rows[at < 0 ? 0 : at + step];
  if (next) open(next.key);
}

addEventListener("keydown", (event) => {
  if (event.isComposing || document.querySelector("dialog[open]")) return;
  const typing = event.target instanceof Element && event.target.closest("input, textarea");
  const command = event.ctrlKey || event.metaKey;
  const key = event.key.toLowerCase();
  if (command && !event.shiftKey && !event.altKey && key === "k") show("search", "Search");
  else if (command && event.shiftKey && key === "o") openNew();
  else if (event.altKey && !command && (key === "arrowup" || key === "arrowdown")) neighbour(key === "arrowup" ? -1 : 1);
  else if (key === "f2" && !event.defaultPrevented) renames(current.value.key);
  else if (typing || command || event.altKey) return;
  else if (key === "?") show("keys", "Keys");
  else if (key === "/") document.getElementById("message")?.focus();
  else return;
  event.preventDefault();
});
