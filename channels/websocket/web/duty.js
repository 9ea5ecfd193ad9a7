/** What waits for the owner: people who ask to be let in, replies that did not arrive. */
import { batch, signal } from "./h.js";
import { api } from "./api.js";

const EVERY = 30_000; // milliseconds

/** @type {import("./vendor/signals-core.js").Signal<any[]>} */
export const people = signal([]);
/** @type {import("./vendor/signals-core.js").Signal<any[]>} */
export const letters = signal([]);

export const waiting = () => people.value.filter((one) => one.status === "pending").length + letters.value.length;

let timer = 0;

/** Look now, and from then on as long as the page is seen. */
export async function watchDuty() {
  clearTimeout(timer);
  timer = setTimeout(watchDuty, EVERY);
  if (document.hidden) return;
  try {
    const [asked, dead] = await Promise.all([api("pairing"), api("outbox")]);
    batch(() => {
      people.value = asked.people;
      letters.value = dead.letters;
    });
  } catch {
    // without a server nothing new is known
  }
}
