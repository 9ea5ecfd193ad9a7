/** Work that may wait: highlighting and formulas of text that is not being written. */

/** @type {Set<() => void>} */
const waiting = new Set();
let scheduled = false;
const later = globalThis.requestIdleCallback ?? ((/** @type {any} */ run) => setTimeout(() => run({ timeRemaining: () => 8 }), 30));

function schedule() {
  if (scheduled || !waiting.size) return;
  scheduled = true;
  later(
    (/** @type {IdleDeadline} */ slot) => {
      scheduled = false;
      const end = performance.now() + Math.max(8, Math.min(12, slot.timeRemaining()));
      for (const task of waiting) {
        waiting.delete(task);
        task();
        if (performance.now() > end) break;
      }
      schedule();
    },
    { timeout: 400 },
  );
}

/**
 * Run at once inside the message that is being written, else when the browser has nothing better to do.
 * @param {() => void} task
 * @param {Element | null} [place]
 * @returns {() => void} forget it
 */
export function whenIdle(task, place) {
  if (place?.closest("[aria-busy=true]")) {
    task();
    return () => {};
  }
  waiting.add(task);
  schedule();
  return () => waiting.delete(task);
}
