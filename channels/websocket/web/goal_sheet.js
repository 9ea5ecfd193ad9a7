/** A goal in full, and what its owner may do with it: every button sends the command that one could type. */
import { html, useEffect, useSignal } from "./h.js";
import { WORDS, clockOf, toneOf } from "./goal.js";
import { icon } from "./icons.js";
import { cleanBidi, oneLine } from "./links.js";
import { say } from "./store.js";
import { count } from "./times.js";

/** Which controls make sense in which state. @type {Record<string, string[]>} */
const CONTROLS = {
  active: ["pause", "edit", "done", "cancel"],
  waiting_user: ["resume", "pause", "edit", "done", "cancel"],
  paused: ["resume", "edit", "done", "cancel"],
  blocked: ["resume", "edit", "done", "cancel"],
};
/** @type {Record<string, string>} */
const NAMES = { pause: "Pause", resume: "Resume", edit: "Edit", done: "Mark as done", cancel: "Stop" };

/** @param {any} used @param {any} most @param {string} unit */
function part(used, most, unit) {
  if (!most) return null;
  const share = Math.min(1, (used ?? 0) / most);
  return html`<li><span>${unit}</span><meter min="0" max="1" value=${share} aria-label=${unit}></meter><span class="figures">${count(used ?? 0)} of ${count(most)}</span></li>`;
}

/** @param {{chat: import("./chat.js").Chat, onClose: () => void}} props */
export default function GoalSheet({ chat, onClose }) {
  const goal = chat.goal.value;
  const editing = useSignal(false);
  const text = useSignal(String(goal?.objective ?? ""));
  const now = useSignal(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => (now.value = Date.now() / 1000), 1_000);
    return () => clearInterval(timer);
  }, []);
  if (!goal) return html`<p>There is no goal in this chat any more.</p><button type="button" class="primary" onClick=${onClose}>Close</button>`;
  const run = (/** @type {string} */ word) => {
    if (word === "edit" && !editing.value) {
      editing.value = true;
      return;
    }
    const more = word === "edit" ? ` ${text.value.trim()}` : "";
    if (word === "edit" && !more.trim()) return;
    say(chat, `/goal ${word}${more}`);
    onClose();
  };
  const lines = /** @type {[string, unknown][]} */ ([
    ["It asks", goal.question],
    ["Why", goal.reason],
    ["Now", goal.step],
    ["What was done", goal.recap],
    ["Evidence", goal.evidence],
    ["Cost", goal.spent?.dollars && `${goal.spent.unpriced ? "at least " : ""}$${goal.spent.dollars.toFixed(2)}`],
  ]).filter(([, value]) => value);
  const controls = chat.writable ? (CONTROLS[goal.status] ?? []) : [];
  return html`<header class=${toneOf(goal)}>
      <h2>${icon("target")}Goal</h2>
      <span class="badge">${WORDS[goal.status] ?? oneLine(goal.status)}</span>
      <time>${clockOf(goal, now.value)}</time>
      <button type="button" class="quiet" onClick=${onClose} aria-label="Close">${icon("cross")}</button>
    </header>
    ${editing.value
      ? html`<label>Objective<textarea rows="6" value=${text.value} onInput=${(/** @type {any} */ event) => (text.value = event.target.value)} ref=${(/** @type {any} */ area) => area?.focus()}></textarea></label>`
      : html`<p class="objective">${cleanBidi(String(goal.objective))}</p>`}
    ${lines.map(([name, value]) => html`<section><h3>${name}</h3><p>${cleanBidi(String(value))}</p></section>`)}
    ${goal.checks?.length > 0 &&
    html`<section><h3>It is done when these succeed</h3><ul class="checks">${goal.checks.map((/** @type {unknown} */ check) => html`<li><code>${cleanBidi(String(check))}</code></li>`)}</ul></section>`}
    ${goal.refusals?.length > 0 &&
    html`<section><h3>Was not accepted as done</h3><ul>${goal.refusals.map((/** @type {unknown} */ why) => html`<li>${cleanBidi(String(why))}</li>`)}</ul></section>`}
    ${goal.budget &&
    html`<section><h3>Budget</h3><ul class="budget">
      ${part(goal.spent?.turns, goal.budget.turns, "Turns")}${part(goal.spent?.minutes, goal.budget.minutes, "Minutes")}${part(goal.spent?.tokens, goal.budget.tokens, "Tokens")}
    </ul></section>`}
    ${controls.length > 0 &&
    html`<footer>
      ${editing.value
        ? html`<button type="button" class="primary" onClick=${() => run("edit")}>Save</button><button type="button" class="plain" onClick=${() => (editing.value = false)}>Cancel</button>`
        : controls.map((word, at) => html`<button type="button" class=${at ? "plain" : "primary"} onClick=${() => run(word)}>${NAMES[word]}</button>`)}
    </footer>`}`;
}
