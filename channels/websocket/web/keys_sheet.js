/** The keys, as a list. */
import { html } from "./h.js";
import { icon } from "./icons.js";

/** @type {[string, string][]} */
const KEYS = [
  ["Enter", "Send; while a turn runs, add to it"],
  ["Shift + Enter", "New line"],
  ["Esc", "Stop what runs"],
  ["/", "Commands; from elsewhere, go to the message box"],
  ["Ctrl + K", "Search all messages"],
  ["Ctrl + Shift + O", "New chat"],
  ["Alt + ↑ or ↓", "Previous or next session"],
  ["F2", "Rename the session"],
  ["Delete", "Delete the session in the list"],
  ["Ctrl + Z", "Take a deletion back"],
  ["?", "This list"],
];

const MAC = /Mac|iP/.test(navigator.platform);
/** @param {string} key */
const named = (key) => (MAC ? key.replace("Ctrl", "⌘").replace("Alt", "⌥") : key);

/** @param {{onClose: () => void}} props */
export default function KeysSheet({ onClose }) {
  return html`<header>
      <h2>Keys</h2>
      <button type="button" class="quiet" onClick=${onClose} aria-label="Close">${icon("cross")}</button>
    </header>
    <dl class="keys">
      ${KEYS.map(([keys, what]) => html`<div><dt>${keys.split(" ").map((key) => (key === "+" || key === "or" ? ` ${key} ` : html`<kbd>${named(key)}</kbd>`))}</dt><dd>${what}</dd></div>`)}
    </dl>`;
}
