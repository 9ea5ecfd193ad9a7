/** What a turn does: one line that names the current step, and the list of steps behind it. */
import { html } from "./h.js";
import { icon } from "./icons.js";
import { later } from "./later.js";
import { duration } from "./times.js";

/** @typedef {import("./items.js").Turn} Turn */

const Steps = later(() => import("./steps.js"));

/** @param {Turn} turn */
function currentLabel(turn) {
  const step = turn.steps.value.findLast((one) => one.status === "running") ?? null;
  if (!step) return "Working";
  return step.kind === "reasoning" ? "Thinking" : `${step.name} ${step.label}`.trim();
}

/** @param {Turn} turn */
function summary(turn) {
  const steps = turn.steps.value.filter((step) => step.kind === "tool").length;
  const time = turn.seconds.value ? ` · ${duration(turn.seconds.value)}` : "";
  if (!steps) return `Thought about it${time}`;
  return `Worked through ${steps} ${steps === 1 ? "step" : "steps"}${time}`;
}

/** @param {{turn: Turn}} props */
export function Activity({ turn }) {
  const working = turn.status.value === "working";
  const id = `steps-${turn.id}`;
  const open = turn.open.value;
  const failed = turn.steps.value.filter((step) => step.status === "failed").length;
  return html`<div class=${`activity ${working ? "working" : ""}`}>
    <button type="button" class="line" aria-expanded=${open} aria-controls=${id} onClick=${() => (turn.open.value = !open)}>
      ${working ? html`<span class="pulse" aria-hidden="true"></span>` : icon(turn.status.value === "failed" ? "alert" : "check")}
      <span class="label">${working ? currentLabel(turn) : summary(turn)}</span>
      ${!working && failed > 0 && html`<span class="wrong">${failed} failed</span>`}
      ${icon("chevron")}
    </button>
    <ol id=${id} hidden=${!open}>
      ${open && html`<${Steps} turn=${turn} />`}
    </ol>
  </div>`;
}

/** The same line at the end of an article, where its steps stand far above. @param {{turn: Turn}} props */
export function NowLine({ turn }) {
  return html`<div class="now"><span class="pulse" aria-hidden="true"></span><span class="label">${currentLabel(turn)}</span></div>`;
}
