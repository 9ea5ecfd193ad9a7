/** Search in every message of every session; the server does the searching. */
import { html, useEffect, useSignal } from "./h.js";
import { openAt } from "./actions.js";
import { api } from "./api.js";
import { icon } from "./icons.js";
import { oneLine } from "./links.js";
import { channelName } from "./sidebar.js";
import { dayName } from "./times.js";

const WAIT = 160; // milliseconds after the last key
const MOST = 40;

/** @typedef {{key: string, title: string, index: number, role: string, excerpt: string, timestamp: string}} Hit */

/** An excerpt is one line of plain words: the signs of headings, emphasis and code say nothing there. @param {string} text */
const plain = (text) => oneLine(text).replace(/(^|\s)#{1,6}\s/g, "$1").replace(/\*\*|__|`+/g, "");

/** The excerpt with the words that were looked for marked. @param {string} text @param {string[]} words */
function marked(text, words) {
  const known = words.filter((word) => word.length > 1).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (!known.length) return text;
  return text.split(new RegExp(`(${known.join("|")})`, "i")).map((part, at) => (at % 2 ? html`<mark>${part}</mark>` : part));
}

/** @param {{typed: string, onClose: () => void}} props `typed` is what was typed before it was there */
export default function Search({ typed, onClose }) {
  const words = useSignal(typed);
  /** @type {import("./vendor/signals-core.js").Signal<Hit[] | null>} */
  const hits = useSignal(/** @type {any} */ (null));
  const chosen = useSignal(0);
  const wrong = useSignal("");
  const query = words.value.trim();
  useEffect(() => {
    if (query.length < 2) {
      hits.value = null;
      return undefined;
    }
    let mine = true;
    const timer = setTimeout(async () => {
      try {
        const found = await api(`search?limit=${MOST}&q=${encodeURIComponent(query)}`);
        if (!mine) return;
        hits.value = found.hits;
        wrong.value = "";
      } catch (error) {
        if (mine) wrong.value = error instanceof Error ? error.message : "The search failed.";
      }
      chosen.value = 0;
    }, WAIT);
    return () => {
      mine = false;
      clearTimeout(timer);
    };
  }, [query]);
  const found = hits.value ?? [];
  const take = (/** @type {Hit | undefined} */ hit) => {
    if (!hit) return;
    onClose();
    openAt(hit.key, hit.index);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step && found.length) chosen.value = (chosen.value + step + found.length) % found.length;
    else if (event.key === "Enter") take(found[chosen.value]);
    else if (event.key === "Escape") onClose(); // the browser would only empty the box
    else return;
    event.preventDefault();
  };
  const said = wrong.value || (hits.value ? `${found.length === MOST ? `${MOST} or more` : found.length || "No"} ${found.length === 1 ? "message" : "messages"}` : "");
  const parts = query.replaceAll('"', " ").split(/\s+/);
  return html`<div class="finder">
      ${icon("search")}
      <input
        type="search"
        role="combobox"
        aria-label="Search all messages"
        aria-expanded=${found.length > 0}
        aria-controls="found"
        aria-autocomplete="list"
        aria-activedescendant=${found.length ? `hit-${chosen.value}` : undefined}
        placeholder="Search all messages"
        value=${words.value}
        onInput=${(/** @type {any} */ event) => (words.value = event.target.value)}
        onKeyDown=${keys}
      />
      <button type="button" class="quiet" onClick=${onClose} aria-label="Close">${icon("cross")}</button>
    </div>
    <p class=${`count ${wrong.value ? "wrong" : ""}`} role="status">${said}</p>
    <ul class="hits" id="found" role="listbox" aria-label="Messages found">
      ${found.map(
        (hit, at) =>
          html`<li
            key=${`${hit.key}:${hit.index}`}
            id=${`hit-${at}`}
            role="option"
            aria-selected=${at === chosen.value}
            onClick=${() => take(hit)}
            ref=${(/** @type {HTMLElement | null} */ row) => at === chosen.value && row?.scrollIntoView({ block: "nearest" })}
          >
            <span class="where"><b dir="auto">${oneLine(hit.title) || "Chat"}</b> <span>${[channelName(hit.key.split(":", 1)[0]), hit.role === "user" ? "said" : "answered", hit.timestamp && dayName(Date.parse(hit.timestamp))].filter(Boolean).join(" · ")}</span></span>
            <span class="excerpt" dir="auto">${marked(plain(hit.excerpt), parts)}</span>
          </li>`,
      )}
    </ul>`;
}
