/** The sessions of all channels, by date; deleting can be undone. */
import { html, signal, useEffect, useRef, useSignal } from "./h.js";
import { focusSoon, rowOf } from "./a11y.js";
import { waiting, watchDuty } from "./duty.js";
import { icon } from "./icons.js";
import { onRename } from "./keys.js";
import { act } from "./later.js";
import { oneLine } from "./links.js";
import { Menu } from "./menu.js";
import { notifies, toggleNotify } from "./notify.js";
import { show } from "./panel.js";
import { current, note, open, openNew, principal, removed, sessions, sessionsLoaded } from "./store.js";
import { nextTheme, theme } from "./theme.js";
import { groupName } from "./times.js";

/** @typedef {import("./store.js").SessionRow} SessionRow */

const MOST = 200; // sessions shown until one asks for more

/** The session whose name is being changed. */
const renaming = signal("");
onRename((key) => (renaming.value = key));

const CHANNELS = { slack: "Slack", telegram: "Telegram", sub: "Sub-session", cli: "Terminal" };
const THEMES = /** @type {const} */ ({ system: ["system", "System theme"], light: ["sun", "Light theme"], dark: ["moon", "Dark theme"] });

/** @param {string} channel */
export const channelName = (channel) => /** @type {Record<string, string>} */ (CHANNELS)[channel] ?? (channel === "websocket" ? "" : oneLine(channel));

/** @param {SessionRow} row */
export const titleOf = (row) => oneLine(row.title || row.preview) || "New chat";

/**
 * Each session with the sub-sessions that work for it, directly or through others. They are listed where they matter:
 * where one of the family is open, while they run, and in a search for a name.
 * @param {SessionRow[]} rows @param {boolean} all
 * @returns {[SessionRow, SessionRow[]][]}
 */
function families(rows, all) {
  const known = new Map(rows.map((row) => [row.key, row]));
  const head = (/** @type {SessionRow} */ row) => {
    let top = row;
    for (let steps = 0; steps < 9 && known.has(top.metadata?.parent); steps++) top = /** @type {SessionRow} */ (known.get(top.metadata?.parent));
    return top.key;
  };
  /** @type {Map<string, SessionRow[]>} */
  const members = new Map();
  for (const row of rows) members.set(head(row), [...(members.get(head(row)) ?? []), row]);
  return [...members].map(([key, list]) => {
    const open = all || list.some((row) => row.key === current.value.key);
    return [/** @type {SessionRow} */ (known.get(key)), list.filter((row) => row.key !== key && (open || row.running))];
  });
}

/** @param {{onLeave: () => void}} props `onLeave` closes the drawer of a small screen */
export function Sidebar({ onLeave }) {
  const filter = useSignal("");
  const all = useSignal(false);
  const words = filter.value.trim().toLowerCase();
  const rows = sessions.value.filter((row) => !removed.value.has(row.key) && (!words || `${titleOf(row)} ${channelName(row.channel)}`.toLowerCase().includes(words)));
  /** @type {Map<string, [SessionRow, boolean][]>} */
  const groups = new Map();
  const most = words || all.value ? rows.length : MOST;
  const shown = rows.filter((row, at) => at < most || row.key === current.value.key);
  for (const [row, nested] of families(shown, words !== "")) {
    const name = groupName(Date.parse(row.updated_at) || Date.now());
    groups.set(name, [...(groups.get(name) ?? []), [row, false], ...nested.map((one) => /** @type {[SessionRow, boolean]} */ ([one, true]))]);
  }
  const first = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || event.isComposing || !words || !rows.length) return;
    open(rows[0].key);
    onLeave();
  };
  const owner = principal.value === "owner";
  useEffect(() => {
    if (owner) watchDuty();
  }, [owner]);
  const duties = owner ? waiting() : 0;
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
    <div class="look">
    <label class="filter">
      ${icon("filter")}<input type="search" aria-label="Filter sessions" placeholder="Filter" value=${filter.value} onInput=${(/** @type {any} */ event) => (filter.value = event.target.value)} onKeyDown=${first} />
    </label>
    <button type="button" class="quiet find" aria-label="Search all messages" title="Search all messages (Ctrl+K)" aria-haspopup="dialog" onClick=${() => show("search", "Search")}>${icon("search")}<span class="keycap" data-keys=${/Mac|iP/.test(navigator.platform) ? "⌘ K" : "Ctrl K"}></span></button>
    </div>
    <div class="rows">
      ${[...groups].map(
        ([name, list]) =>
          html`<section key=${name} aria-label=${name}>
            <h2>${name}</h2>
            <ul>
              ${list.map(([row, nested]) => html`<${Row} key=${row.key} row=${row} nested=${nested} onLeave=${onLeave} />`)}
            </ul>
          </section>`,
      )}
      ${shown.length < rows.length &&
      html`<button type="button" class="plain" onClick=${() => {
        all.value = true;
        focusSoon(rowOf(rows[MOST].key));
      }}>Show all ${rows.length}</button>`}
      ${sessionsLoaded.value && !rows.length && html`<p class="none">${words ? "No session is called that." : "Chats appear here."}</p>`}
    </div>
    <div class="side-foot">
      ${duties > 0 && html`<button type="button" class="quiet duty" aria-haspopup="dialog" onClick=${() => show("office", "For the owner")}>${icon("alert")}<span>${duties} ${duties === 1 ? "thing waits" : "things wait"} for you</span></button>`}
      <div class="feet">
        <button type="button" class="quiet" onClick=${nextTheme} aria-label=${`${themeName}; change`}>${icon(themeIcon)}<span>${themeName}</span></button>
        <button type="button" class="quiet" aria-pressed=${notifies.value} aria-label="Notify me when a turn ends unseen" title="Notify me when a turn ends unseen" onClick=${async () => (await toggleNotify()) || note("The browser does not let this page notify you.")}>${icon("bell")}</button>
        ${owner && html`<button type="button" class="quiet" aria-label="People and undelivered replies" title="People and undelivered replies" aria-haspopup="dialog" onClick=${() => show("office", "For the owner")}>${icon("people")}</button>`}
        <button type="button" class="quiet" aria-label="Keys" title="Keys (?)" aria-haspopup="dialog" onClick=${() => show("keys", "Keys")}>${icon("keys")}</button>
      </div>
    </div>
  </nav>`;
}

/** @param {{row: SessionRow, nested: boolean, onLeave: () => void}} props */
function Row({ row, nested, onLeave }) {
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
    if (event.key === "Delete" && !event.repeat) drop(row.key);
    else if (event.key === "F2") renaming.value = row.key;
    else return;
    event.preventDefault();
  };
  if (renaming.value === row.key) return html`<li><${Naming} row=${row} /></li>`;
  return html`<li class=${nested ? "nested" : undefined}>
    <a href=${`#${encodeURIComponent(row.key)}`} aria-current=${shown ? "page" : undefined} onClick=${pick} onKeyDown=${keys} title=${title}>
      <span class="title" dir="auto">${title}</span>
      ${running && html`<span class="dot" role="img" aria-label="running"></span>`}
      ${channel && html`<span class=${nested ? "unseen" : "channel"}>${channel}</span>`}
    </a>
    <${Menu}
      label=${`More about ${title}`}
      items=${[
        { name: "Rename", act: () => (renaming.value = row.key) },
        { name: row.channel === "websocket" ? "Copy" : "Continue here", act: () => act((one) => one.fork(row.key)) },
        { name: "Export", act: () => act((one) => one.save(row.key)) },
        { name: "Delete", act: () => drop(row.key), danger: true },
      ]}
    />
  </li>`;
}

/** Delete, and go on with the row that follows. @param {string} key */
function drop(key) {
  const rows = [...document.querySelectorAll(".rows a")];
  const at = rows.findIndex((one) => one.matches(rowOf(key)));
  const next = /** @type {HTMLAnchorElement | undefined} */ (rows[at + 1] ?? rows[at - 1]);
  act((one) => {
    one.drop(key);
    focusSoon(next ? `.rows a[href="${CSS.escape(next.hash)}"]` : ".new");
  });
}

/** A session's name while it is changed: Enter keeps it, Escape does not. @param {{row: SessionRow}} props */
function Naming({ row }) {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    input.current?.focus();
    input.current?.select();
  }, []);
  const end = (/** @type {boolean} */ keep) => {
    if (renaming.value !== row.key) return;
    renaming.value = "";
    const title = input.current?.value.trim() ?? "";
    if (keep && title && title !== titleOf(row)) act((one) => one.rename(row.key, title));
    focusSoon(rowOf(row.key)); // the row is back only after the next drawing
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing || (event.key !== "Enter" && event.key !== "Escape")) return;
    event.preventDefault();
    event.stopPropagation();
    end(event.key === "Enter");
  };
  return html`<input ref=${input} class="naming" aria-label="Name of the session" maxlength="200" defaultValue=${titleOf(row)} onKeyDown=${keys} onBlur=${() => end(true)} />`;
}
