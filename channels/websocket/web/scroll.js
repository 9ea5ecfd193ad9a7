/**
 * Where the thread is scrolled: at its end while it grows, unless the reader went up; then nothing moves under them.
 */
import { signal } from "./h.js";

const NEAR_END = 24; // pixels within which the end counts as reached
const NEAR_START = 1_500; // pixels from the top at which older messages are fetched

export class Pin {
  /** @param {() => void} wantsOlder */
  constructor(wantsOlder) {
    this.wantsOlder = wantsOlder;
    this.pinned = true;
    /** Whether there is a way back to the end to offer. */
    this.away = signal(false);
    /** @type {HTMLElement | null} */
    this.view = null;
    this.top = 0;
    this.full = 0;
    /** What is read, while the reader is away from the end: a block and where it stood. @type {{node: Element, top: number} | null} */
    this.anchor = null;
    this.sizes = new ResizeObserver(() => this.#resized());
  }

  /** @param {HTMLElement} view @param {HTMLElement} content */
  attach(view, content) {
    this.view = view;
    this.content = content;
    view.addEventListener("scroll", this.#scrolled, { passive: true });
    view.addEventListener("wheel", this.#wheel, { passive: true });
    content.addEventListener("click", this.#opens);
    this.sizes.observe(view);
    this.sizes.observe(content);
    this.toEnd();
  }

  detach() {
    this.sizes.disconnect();
    this.view?.removeEventListener("scroll", this.#scrolled);
    this.view?.removeEventListener("wheel", this.#wheel);
    this.content?.removeEventListener("click", this.#opens);
  }

  toEnd() {
    this.pinned = true;
    this.away.value = false;
    this.#follow();
  }

  /** Stay with an element instead of the end. @param {Element} node */
  hold(node) {
    this.pinned = false;
    this.away.value = true;
    node.scrollIntoView({ block: "center" });
    if (!this.view) return;
    this.top = this.view.scrollTop;
    this.full = this.view.scrollHeight;
    this.anchor = { node, top: node.getBoundingClientRect().top };
  }

  #follow() {
    // What is no conversation yet is read from its beginning.
    if (!this.view || this.content?.querySelector(".welcome")) return;
    this.view.scrollTop = this.view.scrollHeight;
    this.top = this.view.scrollTop;
    this.full = this.view.scrollHeight;
  }

  /** How far the end is; what stands above may change without moving what is read. */
  get fromEnd() {
    return this.view ? this.view.scrollHeight - this.view.scrollTop : 0;
  }

  /** @param {number} fromEnd */
  keep(fromEnd) {
    if (!this.view) return;
    if (this.pinned) this.#follow();
    else {
      this.view.scrollTop = this.view.scrollHeight - fromEnd;
      this.top = this.view.scrollTop;
      this.full = this.view.scrollHeight;
    }
  }

  #wheel = (/** @type {WheelEvent} */ event) => {
    if (event.deltaY < 0 && this.view && this.view.scrollHeight > this.view.clientHeight) this.#unpin();
  };

  #unpin() {
    this.pinned = false;
    this.away.value = true;
  }

  /** What one opens stays where it is, and so does all that stands above it. */
  #opens = (/** @type {Event} */ event) => {
    const button = event.target instanceof Element ? event.target.closest("[aria-expanded]") : null;
    if (!button) return;
    this.pinned = false;
    this.anchor = { node: button, top: button.getBoundingClientRect().top };
  };

  #scrolled = () => {
    const view = this.view;
    if (!view) return;
    const { scrollTop, scrollHeight, clientHeight } = view;
    const rest = scrollHeight - scrollTop - clientHeight;
    const own = scrollTop === this.top; // set here, not by the reader
    const up = scrollTop < this.top - 1 && scrollHeight >= this.full;
    if (up && rest > NEAR_END) this.#unpin();
    else if (rest <= NEAR_END && scrollTop >= this.top) {
      this.pinned = true;
      this.away.value = false;
    }
    this.top = scrollTop;
    this.full = scrollHeight;
    if (!this.pinned && (!own || !this.anchor?.node.isConnected)) this.#read();
    if (scrollTop < NEAR_START) this.wantsOlder();
  };

  /** Remember the block at the upper edge. */
  #read() {
    const view = this.view;
    if (!view) return;
    const { left, top, width } = view.getBoundingClientRect();
    const found = document.elementFromPoint(left + width / 2, top + 8)?.closest(".md > *, .md li, .bubble, article");
    const node = found ?? [...view.querySelectorAll("article")].find((one) => one.getBoundingClientRect().bottom > top);
    this.anchor = node ? { node, top: node.getBoundingClientRect().top } : null;
  }

  /** Something above may have grown: a formula, a page of older messages, a chunk that came back. */
  #resized() {
    const view = this.view;
    if (!view) return;
    if (this.pinned) this.#follow();
    else if (this.anchor?.node.isConnected) {
      const moved = this.anchor.node.getBoundingClientRect().top - this.anchor.top;
      if (Math.abs(moved) >= 0.5) view.scrollTop += moved;
      this.top = view.scrollTop;
      this.full = view.scrollHeight;
      this.away.value = view.scrollHeight - view.scrollTop - view.clientHeight > NEAR_END;
    }
    if (view.scrollTop < NEAR_START) this.wantsOlder();
  }
}
