/** One chat: its items in chunks, what runs in it, and where its history continues. */
import { signal } from "./h.js";
import { Turn, UserMessage } from "./items.js";

const CHUNK = 20; // items that mount and unmount together

let chunks = 0;

export class Chunk {
  /** @param {string[]} ids */
  constructor(ids) {
    this.key = `c${chunks++}`;
    this.ids = signal(ids);
    this.height = 0; // measured, while it is not mounted
  }
}

export class Chat {
  /** @param {string} key the session key, `channel:chat_id` */
  constructor(key) {
    this.key = key;
    this.channel = key.split(":", 1)[0];
    this.id = key.slice(this.channel.length + 1);
    /** @type {Map<string, UserMessage | Turn>} */
    this.items = new Map();
    /** @type {Map<string, string>} the server's id of a message → the item that shows it */
    this.alias = new Map();
    /** @type {import("./vendor/signals-core.js").Signal<Chunk[]>} */
    this.chunks = signal([]);
    /** The turn that runs: its id, or "". A command may be answered beside it. */
    this.running = signal("");
    /** @type {Set<string>} */
    this.turns = new Set();
    /** @type {import("./vendor/signals-core.js").Signal<any>} */
    this.goal = signal(null);
    /** "new" until its history is here. @type {import("./vendor/signals-core.js").Signal<"new" | "loading" | "ready" | "failed">} */
    this.state = signal("new");
    /** @type {import("./vendor/signals-core.js").Signal<number | null>} */
    this.before = signal(null);
    this.paging = false;
    this.epoch = "";
    this.seq = 0;
    /** @type {any[]} frames that wait until the history is here */
    this.held = [];
    /** @type {any[]} history lines whose turn begins on the page before */
    this.loose = [];
    this.stopping = signal(false);
    /** Another part of its history that is shown instead of its end. @type {import("./vendor/signals-core.js").Signal<Chat | null>} */
    this.view = signal(null);
    /** The item to show first, after a search. */
    this.target = signal("");
    /** Its model and such, as the server tells it. @type {import("./vendor/signals-core.js").Signal<any>} */
    this.about = signal(null);
    /** Files for the next message. @type {import("./vendor/signals-core.js").Signal<import("./files.js").Picked[]>} */
    this.files = signal([]);
    this.renew = false; // its history was begun anew: what is on the screen goes when the turn ends
    this.wanted = 0; // counts the loads of its newest page; only the last one counts
    this.stale = false; // a newer snapshot of its history is on the way
  }

  /** @param {string} turn @param {boolean} on */
  runs(turn, on) {
    if (on) this.turns.add(turn);
    else this.turns.delete(turn);
    this.running.value = [...this.turns].at(-1) ?? "";
    if (!this.turns.size) this.stopping.value = false;
  }

  rests() {
    this.turns.clear();
    this.runs("", false);
  }

  /** Nothing that was said before is shown any more, except what is still on its way. */
  empties() {
    const kept = this.ids.filter((id) => {
      const item = this.items.get(id);
      return item instanceof UserMessage && item.status.value !== "accepted";
    });
    this.items = new Map(kept.map((id) => [id, /** @type {any} */ (this.items.get(id))]));
    this.chunks.value = kept.length ? [new Chunk(kept)] : [];
    this.before.value = null;
    this.loose = [];
  }

  get writable() {
    return this.channel === "websocket";
  }

  /** @param {string} id */
  find(id) {
    return this.items.get(this.alias.get(id) ?? id);
  }

  get ids() {
    return this.chunks.value.flatMap((chunk) => chunk.ids.value);
  }

  get empty() {
    return this.chunks.value.every((chunk) => !chunk.ids.value.length);
  }

  /** @param {UserMessage | Turn} item @param {string} [after] the item it follows; the last by default */
  add(item, after) {
    if (this.items.has(item.id)) return;
    this.items.set(item.id, item);
    const list = this.chunks.value;
    if (after) {
      const home = list.find((chunk) => chunk.ids.value.includes(after));
      if (home) {
        const at = home.ids.value.indexOf(after) + 1;
        home.ids.value = home.ids.value.toSpliced(at, 0, item.id);
        return;
      }
    }
    const last = list[list.length - 1];
    if (last && last.ids.value.length < CHUNK) last.ids.value = [...last.ids.value, item.id];
    else this.chunks.value = [...list, new Chunk([item.id])];
  }

  /** @param {(UserMessage | Turn)[]} items older than all that are here */
  prepend(items) {
    const fresh = items.filter((item) => !this.items.has(item.id));
    if (!fresh.length) return;
    for (const item of fresh) this.items.set(item.id, item);
    const made = [];
    for (let at = 0; at < fresh.length; at += CHUNK) made.push(new Chunk(fresh.slice(at, at + CHUNK).map((item) => item.id)));
    this.chunks.value = [...made, ...this.chunks.value];
  }

  /** @param {string} id */
  remove(id) {
    this.items.delete(id);
    for (const chunk of this.chunks.value) {
      if (chunk.ids.value.includes(id)) chunk.ids.value = chunk.ids.value.filter((known) => known !== id);
    }
  }

  /**
   * Make the newest page of the history what the thread ends with. Items that are known stay the objects they are,
   * so nothing on the screen is drawn anew; what the server does not know yet stays at the end.
   * @param {(UserMessage | Turn)[]} page
   * @param {number | null} before
   * @returns {boolean} whether older items were kept, so that their own cursor still holds
   */
  reconcile(page, before) {
    const known = this.ids;
    const named = new Set(page.map((item) => this.find(item.id)?.id));
    const lastNamed = known.findLastIndex((id) => named.has(id));
    const first = page.findIndex((item) => this.find(item.id));
    const cut = first >= 0 ? known.indexOf(/** @type {any} */ (this.find(page[first].id)).id) : -1;
    const overlaps = cut >= 0 && first === 0;
    const kept = overlaps ? known.slice(0, cut) : [];
    // What was said after all that the page knows is on its way into the history: unsent, or waiting for its turn.
    const said = (/** @type {string} */ id) => /** @type {any} */ (this.items.get(id));
    const waiting = known
      .filter((id, at) => at >= kept.length && !named.has(id) && said(id) instanceof UserMessage && (at > lastNamed || said(id).status.value !== "accepted"))
      .map(said);
    const next = page.map((item) => this.#merged(item));
    next.push(...waiting);
    const order = [...kept, ...next.map((item) => item.id)];
    const items = new Map(kept.map((id) => [id, /** @type {any} */ (this.items.get(id))]));
    for (const item of next) items.set(item.id, item);
    this.items = items;
    if (!overlaps) this.before.value = before;
    if (order.length === known.length && order.every((id, at) => id === known[at])) return overlaps;
    if (overlaps) this.#lay(order);
    else {
      this.chunks.value = [];
      for (let at = 0; at < order.length; at += CHUNK) this.chunks.value = [...this.chunks.value, new Chunk(order.slice(at, at + CHUNK))];
    }
    return overlaps;
  }

  /** Keep the chunks there are as far as they agree, so that they stay mounted. @param {string[]} order */
  #lay(order) {
    let at = 0;
    const kept = [];
    for (const chunk of this.chunks.value) {
      const ids = order.slice(at, at + chunk.ids.value.length);
      if (!ids.length) break;
      if (ids.length !== chunk.ids.value.length || ids.some((id, i) => id !== chunk.ids.value[i])) chunk.ids.value = ids;
      kept.push(chunk);
      at += ids.length;
    }
    for (; at < order.length; at += CHUNK) kept.push(new Chunk(order.slice(at, at + CHUNK)));
    this.chunks.value = kept;
  }

  /** @param {UserMessage | Turn} item */
  #merged(item) {
    const known = this.find(item.id);
    if (!known || known.kind !== item.kind) return item;
    if (known instanceof UserMessage) {
      known.status.value = "accepted";
      return known;
    }
    if (known instanceof Turn && item instanceof Turn) known.adopt(item);
    return known;
  }

  /** The article that a turn's events go to now. @param {string} turn */
  turnItem(turn) {
    let found = null;
    for (const item of this.items.values()) if (item instanceof Turn && item.turn === turn && item.status.value !== "split") found = item;
    return found;
  }
}
