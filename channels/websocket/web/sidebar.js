/** The sessions of all channels, by date; deleting can be undone. */
import { html, useSignal } from "./h.js";
import { icon } from "./icons.js";
import { oneLine } from "./links.js";
import { current, open, openNew, remove, removed, sessions, sessionsLoaded } from "./store.js";
import { nextTheme, theme } from "./theme.js";
import { groupName } from "./times.js";

const CHANNELS = { slack: "Slack", telegram: "Telegram", sub: "Sub-session", cli: "Terminal" };
const THEMES = /** @type {const} */ ({ system: ["system", "System theme"], light: ["sun", "Light theme"], dark: ["moon", "Dark theme"] });

/** @param {string} channel */
export const channelName = (channel) => /** @type {Record<string, string>} */ (CHANNELS)[channel] ?? (channel === "websocket" ? "" : oneLine(channel));

/** @param {import("./store.js").SessionRow} row */
export const titleOf = (row) => oneLine(row.title || row.preview) || "New chat";

/** @param {{onLeave: () => void}} props `onLeave` closes the drawer of a small screen */
export function Sidebar({ onLeave }) {
  const filter = useSignal("");
  const words = filter.value.trim().toLowerCase();
  const rows = sessions.value.filter((row) => !removed.value.has(row.key) && (!words || `${titleOf(row)} ${channelName(row.channel)}`.toLowerCase().includes(words)));
  /** @type {Map<string, typeof rows>} */
  const groups = new Map();
  for (const row of rows) {
    const name = groupName(Date.parse(row.updated_at) || Date.now());
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  const [themeIcon, themeName] = THEMES[theme.value];
  return html`<nav class="sidebar" id="sessions" aria-label="Sessions">
    <div class="side-head">
      <span class="brand">nanobot</span>
      <button
        type="button"
        class="new"
        onClick=${() => {
          openNew();
          onLeave();
        }}
      >
        ${icon("plus")}<span>New chat</span>
      </button>
    </div>
    <label class="filter">
      ${icon("search")}<input type="search" aria-label="Filter sessions" placeholder="Filter" value=${filter.value} onInput=${(/** @type {any} */ event) => (filter.value = event.target.value)} />
    </label>
    <div class="rows">
      ${[...groups].map(
        ([name, list]) =>
          html`<section key=${name} aria-label=${name}>
            <h2>${name}</h2>
            <ul>
              ${list.map((row) => html`<${Row} key=${row.key} row=${row} onLeave=${onLeave} />`)}
            </ul>
          </section>`,
      )}
      ${sessionsLoaded.value && !rows.length && html`<p class="none">${words ? "No session is called that." : "Chats appear here."}</p>`}
    </div>
    <div class="side-foot">
      <button type="button" class="quiet" onClick=${nextTheme} aria-label=${`${themeName}; change`}>${icon(themeIcon)}<span>${themeName}</span></button>
    </div>
  </nav>`;
}

/** @param {{row: import("./store.js").SessionRow, onLeave: () => void}} props */
function Row({ row, onLeave }) {
  const shown = current.value.key === row.key;
  const channel = channelName(row.channel);
  const title = titleOf(row);
  const running = row.running || (shown && current.value.running.value);
  const pick = (/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    open(row.key);
    onLeave();
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Delete") return;
    event.preventDefault();
    remove(row.key);
  };
  return html`<li>
    <a href=${`#${encodeURIComponent(row.key)}`} aria-current=${shown ? "page" : undefined} onClick=${pick} onKeyDown=${keys} title=${title}>
      <span class="title">${title}</span>
      ${running && html`<span class="dot" role="img" aria-label="running"></span>`}
      ${channel && html`<span class="channel">${channel}</span>`}
    </a>
    <button type="button" class="delete" aria-label=${`Delete ${title}`} onClick=${() => remove(row.key)}>${icon("trash")}</button>
  </li>`;
}
