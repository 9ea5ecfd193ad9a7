/** What the page knows: the sessions, the chat that is shown, and what a person can do with them. */
import { signal, batch } from "./h.js";
import { ApiError, api } from "./api.js";
import { Chat } from "./chat.js";
import { UserMessage } from "./items.js";
import { apply } from "./frames.js";
import { itemsOf } from "./history.js";
import { ended } from "./notify.js";
import { abandon, connection, send, start, submit, unsent } from "./ws.js";

const PAGE = 24;
const ATTACHED = 8; // chats that keep receiving while another one is shown
export const UNDO = 8_000; // milliseconds
const FOLLOW = 3_000;

/** @typedef {{key: string, channel: string, title: string, updated_at: string, running?: boolean, preview?: string, metadata?: any}} SessionRow */

/** @type {Map<string, Chat>} least recently shown first */
const chats = new Map();

/** @type {import("./vendor/signals-core.js").Signal<SessionRow[]>} */
export const sessions = signal([]);
export const sessionsLoaded = signal(false);
/** @type {import("./vendor/signals-core.js").Signal<Chat>} */
export const current = signal(chatOf(keyFromAddress()));
/** @type {import("./vendor/signals-core.js").Signal<{name: string, usage: string, description: string}[]>} */
export const commands = signal([]);
/** What went wrong and is not about one message. */
export const problem = signal("");
/** @type {import("./vendor/signals-core.js").Signal<{text: string, undo?: () => void, key?: string} | null>} */
export const toast = signal(null);
/** Who the server takes us for. */
export const principal = signal("");
/** Keys that are deleted once their undo has run out. @type {import("./vendor/signals-core.js").Signal<Set<string>>} */
export const removed = signal(new Set());

/** @type {Map<string, number>} chat → the newest seq to acknowledge */
const acks = new Map();
let acking = 0;
let refreshing = 0;

function newId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function keyFromAddress() {
  let key = "";
  try {
    key = decodeURIComponent(location.hash.slice(1));
  } catch {
    // a mistyped address opens a new chat
  }
  return key.includes(":") ? key : `websocket:${newId()}`;
}

/** @param {string} key */
function chatOf(key) {
  const chat = chats.get(key) ?? new Chat(key);
  chats.delete(key);
  chats.set(key, chat);
  return chat;
}

// Opening.

export function run() {
  addEventListener("hashchange", () => show(keyFromAddress()));
  restore();
  start({ frame: receive, opened });
  load(current.value);
  refresh();
  setInterval(follow, FOLLOW);
}

/** Another channel's chat sends no frames here: while it runs and is looked at, it is read again. */
function follow() {
  const chat = current.value;
  if (!document.hidden && !chat.writable && connection.value === "open" && runs(chat.key)) load(chat);
}

/** @param {string} key */
const runs = (key) => Boolean(sessions.value.find((row) => row.key === key)?.running);

/** Messages of an earlier life of this page that have no receipt yet. */
function restore() {
  for (const message of unsent.values()) {
    chatOf(`websocket:${message.chat_id}`).add(new UserMessage(message.id, message.content, { status: "waiting" }));
  }
}

/** @param {string} key */
export function open(key) {
  location.hash = encodeURIComponent(key);
  show(key);
}

/** The chat that is left stays behind the back button, unless it is gone. @param {boolean} [gone] */
export function openNew(gone = false) {
  if (location.hash.length > 1) history[gone ? "replaceState" : "pushState"](null, "", location.pathname + location.search);
  show(`websocket:${newId()}`);
}

/** @param {string} key */
function show(key) {
  if (current.value.key === key) return;
  current.value = chatOf(key);
  load(current.value);
  if (current.value.epoch) return;
  attach(current.value);
  const idle = [...chats.values()].filter((chat) => chat.writable && chat !== current.value && !chat.running.value);
  for (const chat of idle.slice(0, Math.max(0, chats.size - ATTACHED))) {
    if (chat.ids.some((id) => unsent.has(id))) continue;
    send({ type: "detach", chat_id: chat.id });
    chats.delete(chat.key);
  }
}

function opened() {
  for (const chat of chats.values()) attach(chat);
  refresh();
  if (current.value.state.value === "failed" || !current.value.writable) load(current.value);
}

/** @param {Chat} chat */
function attach(chat) {
  if (!chat.writable) return;
  send({ type: "attach", chat_id: chat.id, ...(chat.epoch ? { epoch: chat.epoch, after: chat.seq } : {}) });
}

// History.

/** Read the newest page and make the thread end with it; `anew` where the history was begun anew. @param {Chat} chat */
export async function load(chat, anew = false) {
  chat.wanted = (chat.wanted ?? 0) + 1;
  const mine = chat.wanted;
  if (chat.state.value !== "ready") chat.state.value = "loading";
  learn(chat);
  try {
    let { messages, before } = await page(chat, null);
    // A page that begins inside a turn needs the one before; a turn of many steps several.
    while (before !== null && !messages.some((/** @type {any} */ line) => line.role === "user")) {
      const older = await page(chat, before);
      messages = [...older.messages, ...messages];
      before = older.before;
    }
    if (mine !== chat.wanted) return;
    batch(() => {
      if (anew) chat.empties();
      const from = before === null ? 0 : messages.findIndex((/** @type {any} */ line) => line.role === "user");
      const turn = chat.writable || !runs(chat.key) ? chat.running.value : String(messages.at(-1)?.turn ?? "");
      const kept = chat.reconcile(itemsOf(messages.slice(from), turn), before);
      if (!kept) chat.loose = messages.slice(0, from);
      chat.state.value = "ready";
      for (const frame of chat.held.splice(0)) take(chat, frame);
    });
  } catch (error) {
    if (mine === chat.wanted && chat.state.value !== "ready") chat.state.value = "failed";
    if (!(error instanceof ApiError || error instanceof TypeError || error instanceof DOMException)) throw error;
  }
}

/** @param {Chat} chat @param {number | null} before @param {number} [limit] */
export async function page(chat, before, limit = PAGE) {
  const cursor = before === null ? "" : `&before=${before}`;
  try {
    return await api(`sessions/${encodeURIComponent(chat.key)}/messages?limit=${limit}${cursor}`);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return { messages: [], before: null, total: 0 };
    throw error;
  }
}

/** @param {Chat} chat @returns {Promise<boolean>} whether something came */
export async function loadOlder(chat) {
  if (chat.paging || chat.before.value === null || chat.state.value !== "ready") return false;
  chat.paging = true;
  try {
    const { messages, before } = await page(chat, chat.before.value);
    const lines = [...messages, ...chat.loose];
    const from = before === null ? 0 : lines.findIndex((/** @type {any} */ line) => line.role === "user");
    batch(() => {
      chat.before.value = before;
      chat.loose = from < 0 ? lines : lines.slice(0, from);
      if (from >= 0) chat.prepend(itemsOf(lines.slice(from), chat.running.value));
    });
    return true;
  } catch {
    return false;
  } finally {
    chat.paging = false;
  }
}

// Frames.

/** @param {any} frame */
function receive(frame) {
  if (frame.event === "ready") principal.value = String(frame.principal ?? "");
  if (frame.event === "session_updated") {
    refresh();
    const begun = frame.scope === "thread" ? chats.get(frame.session) : undefined;
    // The command that began it anew is answered after this; then the history has both.
    if (begun) begun.renew = true;
    if (frame.scope === "deleted") {
      forget(frame.session);
      return;
    }
    // Other channels' chats send no frames here.
    if (frame.session === current.value.key && !current.value.writable) load(current.value);
    return;
  }
  const chat = frame.chat_id ? chats.get(`websocket:${frame.chat_id}`) : undefined;
  if (frame.event === "error") {
    refuse(chat, frame);
    return;
  }
  if (!chat) return;
  if (frame.event === "attached") greet(chat, frame);
  else if (frame.event === "accepted") apply(chat, frame);
  else if (frame.seq !== undefined) {
    if (chat.state.value === "ready" && !chat.stale) take(chat, frame);
    else chat.held.push(frame);
  }
}

/** A session is gone, here or in another window. @param {string} key */
export function forget(key) {
  const chat = chats.get(key);
  if (!chat) return;
  chats.delete(key);
  if (current.value !== chat) return;
  openNew(true);
  note("This chat was deleted in another window.");
}

/** @param {Chat} chat @param {any} frame */
function greet(chat, frame) {
  const stopped = chat.stopping.value && chat.running.value;
  batch(() => {
    chat.epoch = frame.epoch;
    chat.seq = frame.seq;
    chat.turns.clear();
    if (frame.goal_state !== undefined) chat.goal.value = frame.goal_state;
    chat.runs(String(frame.turn_id ?? ""), Boolean(frame.running && frame.turn_id));
    chat.stopping.value = Boolean(stopped) && stopped === chat.running.value;
  });
  // It may have been pressed while there was no connection.
  if (chat.stopping.value) stop(chat);
  if (!frame.snapshot) return;
  chat.held = [];
  chat.stale = true;
  load(chat).then(() => {
    chat.stale = false;
    // Accepted messages that no turn has taken yet are in no history.
    for (const one of frame.waiting ?? []) apply(chat, { ...one, event: "user_message" });
    if (chat.state.value === "ready") for (const one of chat.held.splice(0)) take(chat, one);
  });
}

/** @param {Chat} chat @param {any} frame */
function take(chat, frame) {
  if (frame.seq <= chat.seq) return;
  chat.seq = frame.seq;
  apply(chat, frame);
  if (frame.event === "goal_status" || frame.event === "turn_end") refresh();
  if (frame.event === "turn_end") over(chat, frame);
  // A message that waited for its turn when this page was opened is in the history only now.
  if (frame.event === "turn_end" && (chat.renew || frame.answers?.some((/** @type {string} */ id) => !chat.find(String(id))))) {
    load(chat, chat.renew);
    chat.renew = false;
  }
  // A reply counts as delivered once it is acknowledged; everything else may wait and be counted together.
  acks.set(chat.id, frame.seq);
  if (frame.message_id) acknowledge();
  else acking ||= setTimeout(acknowledge, 1_000);
}

/** A turn has ended: what the status says may have changed, and somebody may want to know. @param {Chat} chat @param {any} frame */
function over(chat, frame) {
  learn(chat);
  const row = sessions.value.find((one) => one.key === chat.key);
  const turn = chat.turnItem(String(frame.turn_id));
  ended(row?.title || row?.preview || "nanobot", frame.status === "failed" ? "The turn failed." : (turn?.text ?? ""), () => open(chat.key));
}

/** Ask for the chat's model, its context and what it belongs to. @param {Chat} chat */
async function learn(chat) {
  try {
    const about = await api(`sessions/${encodeURIComponent(chat.key)}/about`);
    batch(() => {
      chat.about.value = about;
      if (about.goal_state && !chat.writable) chat.goal.value = about.goal_state;
    });
  } catch {
    // the status line stays as it was
  }
}

function acknowledge() {
  clearTimeout(acking);
  acking = 0;
  for (const [chat_id, seq] of acks) send({ type: "ack", chat_id, seq });
  acks.clear();
}

/** @param {Chat | undefined} chat @param {any} frame */
function refuse(chat, frame) {
  if (frame.code === "unauthorized" || frame.code === "stopping") return;
  const item = chat && frame.id !== undefined ? chat.items.get(String(frame.id)) : undefined;
  if (item instanceof UserMessage) {
    abandon(item.id);
    item.error.value = String(frame.detail ?? frame.code);
    item.status.value = "failed";
  } else problem.value = String(frame.detail ?? frame.code);
}

// Doing.

/** @param {Chat} chat @param {string} text @param {{name: string, data_url: string, mime: string}[]} [files] */
export function say(chat, text, files = []) {
  const id = newId();
  const media = files.map((file, at) => ({ id: `${id}:${at}`, name: file.name, mime: file.mime, url: file.data_url }));
  chat.add(new UserMessage(id, text, { status: "waiting", media }));
  if (location.hash.length < 2) history.replaceState(null, "", `#${encodeURIComponent(chat.key)}`);
  const uploads = files.map(({ name, data_url }) => ({ name, data_url }));
  submit({ type: "message", chat_id: chat.id, id, content: text, ...(uploads.length ? { media: uploads } : {}) });
}

/** Send a message that was refused once more, as a new one. @param {Chat} chat @param {UserMessage} item */
export function sayAgain(chat, item) {
  chat.remove(item.id);
  say(chat, item.text, item.media.filter((file) => file.url?.startsWith("data:")).map((file) => ({ name: file.name, mime: file.mime, data_url: String(file.url) })));
}

/** @param {Chat} chat */
export function stop(chat) {
  if (!chat.running.value) return;
  chat.stopping.value = true;
  send({ type: "stop", chat_id: chat.id });
}

/** Read the list of sessions, soon and once. */
export function refresh() {
  clearTimeout(refreshing);
  refreshing = setTimeout(async () => {
    try {
      const [list, menu] = await Promise.all([api("sessions"), commands.value.length ? null : api("commands")]);
      batch(() => {
        sessions.value = list.sessions;
        sessionsLoaded.value = true;
        // Frames tell of changes only; how a goal stands when the page opens is in the list.
        for (const row of list.sessions) {
          const chat = chats.get(row.key);
          if (chat && !chat.goal.value && row.metadata?.goal_state) chat.goal.value = row.metadata.goal_state;
        }
        if (menu) commands.value = menu.commands;
      });
    } catch {
      // without a server the list stays as it was; the connection's state says so already
    }
  }, 120);
}

/** Say something that needs no answer. @param {string} text */
export function note(text) {
  const mine = { text };
  toast.value = mine;
  setTimeout(() => toast.value === mine && (toast.value = null), UNDO);
}

export { connection };
