/** What stands behind a turn's line: each step with its arguments, its result and what it changed. */
import { html, useSignal } from "./h.js";
import { changeOf } from "./diff.js";
import { cleanBidi, oneLine } from "./links.js";
import { duration } from "./times.js";

/** @typedef {import("./items.js").Step} Step */

const SHOWN = 4_000; // characters of a step's arguments or result

/** @param {{turn: {steps: {value: Step[]}}}} props */
export default function Steps({ turn }) {
  return turn.steps.value.map((step) => html`<${StepRow} key=${step.id} step=${step} />`);
}

/** The session that a step delegated to, as its result names it, or "". @param {Step} step */
function childOf(step) {
  const id = /"session_id":\s*"([0-9a-f]{8}-[0-9a-f-]{27})"/.exec(step.text)?.[1];
  return id ? `sub:${id}` : "";
}

/** A step's arguments, where they say more than its line does. @param {Step} step */
function argumentsOf(step) {
  try {
    const values = Object.values(JSON.parse(step.detail));
    return values.length === 1 && oneLine(values[0]) === step.label ? "" : step.detail;
  } catch {
    return step.detail;
  }
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
  const more = step.text.length > line.length || argumentsOf(step) !== "";
  const time = step.seconds === null ? "" : ` · ${duration(step.seconds)}`;
  const call = html`<code>${step.name}</code><span class="argument">${step.label}</span>${
    change && html`<span class="counts"><span class="plus">+${change.added}</span> <span class="minus">−${change.removed}</span></span>`
  }<span class="status">${WORDS[step.status]}${time}</span>`;
  const child = childOf(step);
  const all = [argumentsOf(step), step.text].filter(Boolean).join("\n\n");
  return html`<li class=${`step tool ${step.status}`}>
    ${more
      ? html`<button type="button" class="call" aria-expanded=${open.value} onClick=${() => (open.value = !open.value)}>${call}</button>`
      : html`<div class="call">${call}</div>`}
    ${line && !open.value && html`<div class="result">${cleanBidi(line)}</div>`}
    ${child && html`<a class="plain" href=${`#${encodeURIComponent(child)}`}>Open the sub-session</a>`}
    ${open.value && change && html`<pre class="diff" tabindex="0" role="region" aria-label=${`${step.name}: what changed`}>${change.lines.map(([mark, text]) => html`<span class=${mark === "+" ? "plus" : mark === "-" ? "minus" : ""}>${mark} ${cleanBidi(text)}</span>`)}</pre>`}
    ${open.value && !change && html`<pre tabindex="0" role="region" aria-label=${`${step.name}: arguments and result`}>${cleanBidi(all.slice(0, SHOWN))}</pre>`}
  </li>`;
}
