/** The keys, as a list. */
import { html } from "./h.js";
import { icon } from "./icons.js";
import { KEYS } from "./keys.js";

/** @param {{onClose: () => void}} props */
export default function KeysSheet({ onClose }) {
  return html`<header>
      <h2>Keys</h2>
      <button type="button" class="quiet" onClick=${onClose} aria-label="Close">${icon("cross")}</button>
    </header>
    <dl class="keys">
      ${KEYS.map(([keys, what]) => html`<div><dt>${keys.split(" ").map((key) => (key === "+" || key === "or" ? ` ${key} ` : html`<kbd>${key}</kbd>`))}</dt><dd>${what}</dd></div>`)}
    </dl>`;
}
