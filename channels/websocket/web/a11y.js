/** What a screen reader is told: that work began and that it ended, never the text as it grows. */
import { html, signal, effect } from "./h.js";
import { current } from "./store.js";

const said = signal("");
const STILL = 15_000; // milliseconds of silence before "Still working"

/** @param {string} text */
export function announce(text) {
  said.value = text;
}

let chat = current.peek();
let running = false;
let timer = 0;
effect(() => {
  const now = current.value;
  const runs = Boolean(now.running.value);
  const same = now === chat;
  chat = now;
  if (runs === running && same) return;
  const before = running && same;
  running = runs;
  clearInterval(timer);
  if (runs) {
    announce("Working");
    timer = setInterval(() => announce(said.peek() === "Working" ? "Still working" : "Working"), STILL);
  } else if (before) announce(now.items.size && lastStatus(now) === "stopped" ? "Stopped" : "Reply finished");
});

/** Whether there is a mouse and, most likely, a keyboard that is not drawn on the screen. */
export const fine = () => matchMedia("(pointer: fine)").matches;

/** Where a button vanishes under the one who pressed it by key: on to what is nearest. @param {string} selector */
export function focusSoon(selector) {
  const move = () => {
    if (document.activeElement && document.activeElement !== document.body) return;
    const target = document.querySelector(selector) ?? document.getElementById("message");
    // On a touch screen the message box would bring the keyboard up.
    if (target?.id === "message" && !fine()) return;
    /** @type {HTMLElement | null} */ (target)?.focus({ preventScroll: true });
  };
  // What vanishes does so with the next drawing, and gives its focus away after that.
  requestAnimationFrame(() => requestAnimationFrame(move));
}

/** A session in the list. @param {string} key */
export const rowOf = (key) => `.rows a[href="#${CSS.escape(encodeURIComponent(key))}"]`;

/** @param {import("./chat.js").Chat} of */
function lastStatus(of) {
  const last = [...of.items.values()].findLast((item) => item.kind === "turn");
  return last?.status.peek();
}

export function Announcer() {
  return html`<div class="unseen" role="status">${said.value}</div>`;
}
