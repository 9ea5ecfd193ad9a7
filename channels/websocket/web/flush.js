/**
 * When text that arrives is drawn: once per animation frame, half a second apart in a hidden tab, and less often
 * where drawing itself is slow.
 */
const SLOW = 20; // milliseconds from the flush to the paint
const LONGEST = 250;

/** @type {Set<() => void>} */
const dirty = new Set();
let scheduled = false;
let wait = 0;
const painted = new MessageChannel();
let started = 0;

painted.port1.onmessage = () => {
  const cost = performance.now() - started;
  wait = cost > SLOW ? Math.min(LONGEST, cost * 1.5) : 0;
};

export function flushNow() {
  const tasks = [...dirty];
  dirty.clear();
  for (const task of tasks) task();
}

function run() {
  scheduled = false;
  started = performance.now();
  flushNow();
  painted.port2.postMessage(0);
}

/** Draw soon. The same function asked for twice runs once. @param {() => void} task */
export function drawSoon(task) {
  dirty.add(task);
  if (scheduled) return;
  scheduled = true;
  if (document.hidden) setTimeout(run, 500);
  else if (wait) setTimeout(() => requestAnimationFrame(run), wait);
  else requestAnimationFrame(run);
}

// A frame that was asked for before the tab was hidden never comes.
document.addEventListener("visibilitychange", () => scheduled && document.hidden && setTimeout(() => scheduled && run(), 500));
