/** A word from the system when a turn ended in a tab that nobody looks at. */
import { signal } from "./h.js";

const KEY = "nanobot.notify";
const allowed = () => "Notification" in globalThis && Notification.permission === "granted";

function stored() {
  try {
    return localStorage.getItem(KEY) === "on";
  } catch {
    return false;
  }
}

export const notifies = signal(stored() && allowed());
/** Turns that ended unseen; in the title. */
export const unseen = signal(0);

/** @returns {Promise<boolean>} whether the browser lets it be so */
export async function toggleNotify() {
  const wanted = !notifies.value;
  let on = wanted;
  if (on && !allowed()) on = "Notification" in globalThis && (await Notification.requestPermission()) === "granted";
  notifies.value = on;
  try {
    localStorage.setItem(KEY, on ? "on" : "off");
  } catch {
    // then it holds for this visit
  }
  return on === wanted;
}

/** @param {string} title @param {string} text @param {() => void} open */
export function ended(title, text, open) {
  if (!document.hidden) return;
  unseen.value += 1;
  if (!notifies.value || !allowed()) return;
  const note = new Notification(title, { body: text.slice(0, 160), tag: title });
  note.onclick = () => {
    focus();
    open();
    note.close();
  };
}

document.addEventListener("visibilitychange", () => !document.hidden && (unseen.value = 0));
