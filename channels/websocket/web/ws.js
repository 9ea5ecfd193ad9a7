/** The socket: it comes back by itself, replays what was missed, and sends what was not accepted again. */
import { signal } from "./h.js";
import { api, refused, token } from "./api.js";

const FIRST = 250; // milliseconds before the first new attempt
const LONGEST = 8_000;
const PING = 25_000;
const SILENCE = 10_000; // after a ping
const STORED = "nanobot.unsent";

/** @typedef {{type: "message", chat_id: string, id: string, content: string, media?: any[]}} Unsent */

/** @type {import("./vendor/signals-core.js").Signal<"connecting" | "open" | "lost">} */
export const connection = signal("connecting");

/** @type {Map<string, Unsent>} messages without a receipt */
export const unsent = new Map(stored().map((message) => [message.id, message]));

/** @type {WebSocket | null} */
let socket = null;
let attempts = 0;
let timer = 0;
let pinger = 0;
let heard = 0;
/** @type {{frame: (frame: any) => void, opened: () => void}} */
let listener = { frame() {}, opened() {} };

/** @returns {Unsent[]} */
function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(STORED) ?? "[]");
  } catch {
    return [];
  }
}

/** Messages outlive a reload; their files are too large for that. */
function keep() {
  const plain = [...unsent.values()].filter((message) => !message.media?.length);
  sessionStorage.setItem(STORED, JSON.stringify(plain));
}

/** @param {typeof listener} to */
export function start(to) {
  listener = to;
  connect();
  addEventListener("online", () => again(0));
  document.addEventListener("visibilitychange", () => !document.hidden && connection.value === "lost" && again(0));
}

function connect() {
  clearTimeout(timer);
  const url = new URL("ws", document.baseURI);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  // A browser cannot set a header here; a subprotocol is never written to a log. It takes these letters only.
  const fits = /^[\w.~!#$%&'*+^`|-]+$/.test(token());
  const protocols = token() && fits ? ["nanobot.v1", `nanobot.token.${token()}`] : ["nanobot.v1"];
  const mine = (socket = new WebSocket(url, protocols));
  let opened = false;
  mine.onopen = () => {
    opened = true;
    if (token() && !fits) mine.send(JSON.stringify({ type: "auth", token: token() }));
  };
  mine.onmessage = (message) => {
    if (mine !== socket) return;
    heard = performance.now();
    let frame;
    try {
      frame = JSON.parse(message.data);
    } catch {
      return;
    }
    if (frame.event === "ready") ready();
    if (frame.event === "error" && frame.code === "unauthorized") refused.value = true;
    if (frame.event === "accepted" && unsent.delete(String(frame.id))) keep();
    listener.frame(frame);
  };
  mine.onclose = () => {
    if (mine !== socket) return;
    clearInterval(pinger);
    connection.value = "lost";
    // A refused handshake looks like a dead server from here; REST tells them apart.
    if (!opened) api("commands").catch(() => {});
    if (!refused.value) again(Math.min(LONGEST, FIRST * 2 ** attempts++) * (0.75 + Math.random() / 2));
  };
}

function ready() {
  attempts = 0;
  connection.value = "open";
  clearInterval(pinger);
  pinger = setInterval(() => {
    const asked = performance.now();
    send({ type: "ping" });
    setTimeout(() => heard < asked && connection.value === "open" && socket?.close(), SILENCE);
  }, PING);
  listener.opened();
  for (const message of unsent.values()) send(message);
}

/** @param {number} wait milliseconds */
function again(wait) {
  clearTimeout(timer);
  if (socket && socket.readyState <= WebSocket.OPEN && connection.value === "open") return;
  timer = setTimeout(connect, wait);
}

/** Try at once, for example with a new token. */
export function reconnect() {
  attempts = 0;
  const old = socket;
  socket = null;
  old?.close();
  connect();
}

/** @param {object} frame @returns {boolean} whether it left; only messages are sent again by themselves */
export function send(frame) {
  if (socket?.readyState !== WebSocket.OPEN) return false;
  socket.send(JSON.stringify(frame));
  return true;
}

/** @param {Unsent} message kept and repeated until the server has it */
export function submit(message) {
  unsent.set(message.id, message);
  keep();
  if (connection.value === "open") send(message);
}

/** @param {string} id the server will never take this one */
export function abandon(id) {
  unsent.delete(id);
  keep();
}
