/** The goal of a chat, where it has one: what it is, how it stands, how long it took. */
import { html, useEffect, useSignal } from "./h.js";
import { icon } from "./icons.js";
import { oneLine } from "./links.js";
import { show } from "./panel.js";

/** @type {Record<string, string>} */
export const WORDS = {
  active: "Active",
  waiting_user: "Waiting",
  paused: "Paused",
  blocked: "Blocked",
  completed: "Done",
  cancelled: "Stopped",
  exhausted: "Out of budget",
};

/** @param {unknown} moment seconds since the epoch, or an ISO time */
function seconds(moment) {
  if (typeof moment === "number") return moment;
  return typeof moment === "string" ? Date.parse(moment) / 1000 : NaN;
}

/** @param {number} total */
function digits(total) {
  const whole = Math.max(0, Math.floor(total));
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

/** How long a goal has been worked at, or was. @param {any} goal @param {number} now seconds */
export function clockOf(goal, now) {
  const from = seconds(goal.started_at);
  return from > 0 ? digits((seconds(goal.ended_at) || now) - from) : "";
}

/** How its badge looks: it goes on, it waits for a person, or neither. @param {any} goal */
export const toneOf = (goal) => (goal.status === "active" ? "active" : /^(?:waiting_user|blocked)$/.test(goal.status) ? "asks" : "");

/** @param {{chat: import("./chat.js").Chat}} props */
export function GoalStrip({ chat }) {
  const goal = chat.goal.value;
  const now = useSignal(Date.now() / 1000);
  const active = goal?.status === "active";
  useEffect(() => {
    if (!active) return undefined;
    const timer = setInterval(() => (now.value = Date.now() / 1000), 1_000);
    return () => clearInterval(timer);
  }, [active]);
  if (!goal?.objective) return null;
  const time = clockOf(goal, now.value);
  // Hidden from screen readers, which would read the button anew each second; the sheet has it for them.
  const text = oneLine(goal.ui_summary || goal.objective);
  return html`<section class="goal" role="region" aria-label="Goal">
    <button type="button" class=${`strip ${toneOf(goal)}`} aria-haspopup="dialog" title=${oneLine(goal.objective)} onClick=${() => show("goal", "Goal", { chat })}>
      ${icon("target")}<span class="goal-word">Goal</span><span class="objective">${text}</span>
      <span class="badge">${WORDS[goal.status] ?? oneLine(goal.status)}</span>
      ${time && html`<time aria-hidden="true">${time}</time>`}
    </button>
  </section>`;
}
