/** What a turn does: one line that names the current step, and the list of steps behind it. */
import { html, useSignal } from "./h.js";
import { changeOf } from "./diff.js";
import { icon } from "./icons.js";
import { cleanBidi } from "./links.js";
import { duration } from "./times.js";

/** @typedef {import("./items.js").Turn} Turn */
/** @typedef {import("./items.js").Step} Step */

const SHOWN = 4_000; // characters of a step's arguments or result

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
      ${working ? html`<span class="pulse" aria-hidden="true"></span>` : icon("check")}
      <span class="label">${working ? currentLabel(turn) : summary(turn)}</span>
      ${!working && failed > 0 && html`<span class="wrong">${failed} failed</span>`}
      ${icon("chevron")}
    </button>
    <ol id=${id} hidden=${!open}>
      ${open && turn.steps.value.map((step) => html`<${StepRow} key=${step.id} step=${step} />`)}
    </ol>
  </div>`;
}

/** The same line at the end of an article, where its steps stand far above. @param {{turn: Turn}} props */
export function NowLine({ turn }) {
  return html`<div class="now"><span class="pulse" aria-hidden="true"></span><span class="label">${currentLabel(turn)}</span></div>`;
}

const WORDS = { running: "running", done: "done", failed: "failed" };

/** @param {{step: Step}} props */
function StepRow({ step }) {
  const open = useSignal(false);
  if (step.kind !== "tool") {
    return html`<li class=${`step ${step.kind}`}>${cleanBidi(step.kind === "notice" ? step.label : step.text)}</li>`;
  }
  const change = changeOf(step);
  const line = step.text.split("\n", 1)[0].slice(0, 200);
  const more = step.text.length > line.length || Boolean(step.detail);
  const time = step.seconds === null ? "" : ` · ${duration(step.seconds)}`;
  const call = html`<code>${step.name}</code><span class="argument">${step.label}</span>${
    change && html`<span class="counts"><span class="plus">+${change.added}</span> <span class="minus">−${change.removed}</span></span>`
  }<span class="status">${WORDS[step.status]}${time}</span>`;
  const child = /\bsub:[\w-]{4,64}/.exec(`${step.detail}\n${step.text}`)?.[0];
  const all = `${step.detail}${step.detail && step.text ? "\n\n" : ""}${step.text}`;
  return html`<li class=${`step tool ${step.status}`}>
    ${more
      ? html`<button type="button" class="call" aria-expanded=${open.value} onClick=${() => (open.value = !open.value)}>${call}</button>`
      : html`<div class="call">${call}</div>`}
    ${line && !open.value && html`<div class="result">${cleanBidi(line)}</div>`}
    ${child && html`<a class="plain" href=${`#${encodeURIComponent(child)}`}>Open the sub-session</a>`}
    ${open.value && change && html`<pre class="diff" tabindex="0" role="region" aria-label=${`${step.name}: what changed`}>${change.lines.map(([mark, text]) => html`<span class=${mark === "+" ? "plus" : mark === "-" ? "minus" : ""}>${mark} ${cleanBidi(text)}${"\n"}</span>`)}</pre>`}
    ${open.value && !change && html`<pre tabindex="0" role="region" aria-label=${`${step.name}: arguments and result`}>${cleanBidi(all.slice(0, SHOWN))}</pre>`}
  </li>`;
}
