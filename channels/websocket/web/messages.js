/** One article of the thread: what the user said, or a turn's answer. */
import { html, useEffect, useSignal } from "./h.js";
import { focusSoon } from "./a11y.js";
import { Activity, NowLine } from "./activity.js";
import { fileUrl } from "./api.js";
import { copyText } from "./code.js";
import { icon } from "./icons.js";
import { UserMessage } from "./items.js";
import { act } from "./later.js";
import { cleanBidi, oneLine } from "./links.js";
import { Markdown } from "./render.js";
import { sayAgain } from "./store.js";
import { clock, count } from "./times.js";

/** @typedef {import("./chat.js").Chat} Chat */
/** @typedef {import("./items.js").Turn} Turn */

// What one said oneself is known: of a long text that was pasted, the beginning is enough.
const LONG = 2_000; // characters
const LINES = 12;

/** @param {{chat: Chat, item: UserMessage | Turn}} props */
export function Article({ chat, item }) {
  return item instanceof UserMessage ? html`<${You} chat=${chat} item=${item} />` : html`<${Answer} chat=${chat} turn=${item} />`;
}

/** @param {{chat: Chat, item: UserMessage}} props */
function You({ chat, item }) {
  const status = item.status.value;
  const whole = useSignal(false);
  const short = item.text.slice(0, LONG).split("\n", LINES).join("\n");
  const cut = short.length < item.text.length && !whole.value;
  return html`<article class=${`you ${status}`} aria-label="You said" data-id=${item.id}>
    ${item.media.length > 0 && html`<div class="files">${item.media.map((file) => html`<${Shown} key=${file.id ?? file.name} file=${file} />`)}</div>`}
    ${item.text && html`<div class="bubble">${cleanBidi(cut ? `${short}…` : item.text)}</div>`}
    ${cut && html`<button type="button" class="quiet" onClick=${() => (whole.value = true)}>Show all ${count(item.text.length)} characters</button>`}
    <div class="foot">
      ${status === "waiting" && html`<span>Sending…</span>`}
      ${status === "failed" &&
      html`<span class="wrong">Not sent: ${oneLine(item.error.value)}</span>
        <button type="button" class="quiet" onClick=${() => {
          sayAgain(chat, item);
          focusSoon("#message");
        }}>${icon("retry")}<span>Send again</span></button>`}
      ${status === "accepted" &&
      html`${chat.writable && html`<${Act} name="Edit and send again" picture="edit" run=${() => fork(chat, { before: serverId(chat, item) }, item)} />`}
        <${Copy} text=${() => item.text} /><time dateTime=${new Date(item.time).toISOString()}>${clock(item.time)}</time><${Stage} item=${item} />`}
    </div>
  </article>`;
}

/** @type {Record<string, string>} */
const STAGES = { queued: "Waiting for its turn", working: "Being answered", done: "Answered", stopped: "Stopped", failed: "Not answered" };

/** How far a message got after the server had it. @param {{item: UserMessage}} props */
function Stage({ item }) {
  const stage = item.stage.value;
  if (!stage) return null;
  return html`<span class=${`stage ${stage}`} title=${STAGES[stage]}>${stage === "done" ? html`${icon("check")}<span class="unseen">${STAGES.done}</span>` : STAGES[stage]}</span>`;
}

/** The id that the server knows a message by. @param {Chat} chat @param {UserMessage} item */
const serverId = (chat, item) => [...chat.alias].find(([, own]) => own === item.id)?.[0] ?? item.id;

/** @param {Chat} chat @param {object} until @param {UserMessage} [said] */
const fork = (chat, until, said) => act((one) => one.fork(chat.key, until, said));

/** A small action under a message. @param {{name: string, picture: any, run: () => void}} props */
function Act({ name, picture, run }) {
  return html`<button type="button" class="quiet copy" aria-label=${name} title=${name} onClick=${run}>${icon(picture)}</button>`;
}

/** A file of a message. @param {{file: import("./items.js").Media}} props */
export function Shown({ file }) {
  const url = useSignal(file.url?.startsWith("data:") ? file.url : "");
  useEffect(() => {
    let made = "";
    if (file.url && !file.url.startsWith("data:")) {
      fileUrl(file.url).then(
        (found) => (url.value = made = found),
        () => {},
      );
    }
    return () => URL.revokeObjectURL(made);
  }, [file.url]);
  const name = oneLine(file.name) || "file";
  if (url.value && /^image\/(?:png|jpeg|gif|webp)$/.test(file.mime ?? "")) return html`<a href=${url.value} target="_blank" download=${url.value.startsWith("data:") ? name : undefined}><img src=${url.value} alt=${name} /></a>`;
  return url.value
    ? html`<a class="file" href=${url.value} download=${name}>${icon("attach")}<span>${name}</span></a>`
    : html`<span class="file">${icon("attach")}<span>${name}</span></span>`;
}

/** @param {{chat: Chat, turn: Turn}} props */
function Answer({ chat, turn }) {
  const status = turn.status.value;
  const segments = turn.segments.value;
  const at = turn.stepsAt.value;
  const working = status === "working";
  const texts = segments.map((segment) => html`<${Text} key=${segment.id} segment=${segment} />`);
  if (at >= 0) texts.splice(Math.min(at, texts.length), 0, html`<${Activity} key="activity" turn=${turn} />`);
  return html`<article class=${`turn ${status}`} aria-label="nanobot said" aria-busy=${working ? "true" : undefined} data-id=${turn.id}>
    ${texts}
    ${turn.media.length > 0 && html`<div class="files">${turn.media.map((/** @type {any} */ file) => html`<${Shown} key=${file.id} file=${file} />`)}</div>`}
    <div class="foot">
      ${working && html`<${Busy} turn=${turn} />`}
      ${status === "stopped" && html`<span class="state">Stopped</span>`}
      ${status === "failed" && html`<span class="state wrong">Failed</span><${Retry} chat=${chat} turn=${turn} />`}
      ${!working && status !== "split" && html`<${Copy} text=${() => turn.text} />
        ${status !== "failed" && html`<${Again} chat=${chat} turn=${turn} />`}
        ${turn.final && html`<${Act} name="Continue in a copy from here" picture="fork" run=${() => fork(chat, { through: turn.final })} />`}
        <time dateTime=${new Date(turn.time).toISOString()}>${clock(turn.time)}</time><${Cost} turn=${turn} />`}
    </div>
  </article>`;
}

/** A calm line where nothing else shows that work goes on. @param {{turn: Turn}} props */
function Busy({ turn }) {
  const segments = turn.segments.value;
  const writing = segments.at(-1)?.view.value.live;
  const lineIsLast = turn.stepsAt.value >= segments.length;
  return writing || lineIsLast ? null : html`<${NowLine} turn=${turn} />`;
}

/** @param {{segment: import("./items.js").Segment}} props */
function Text({ segment }) {
  const { tokens, live } = segment.view.value;
  return html`<${Markdown} tokens=${tokens} live=${live} />`;
}

/** @param {{text: () => string}} props */
function Copy({ text }) {
  const copied = useSignal(false);
  const copy = async () => {
    if (!(await copyText(text()))) return;
    copied.value = true;
    setTimeout(() => (copied.value = false), 1_600);
  };
  return html`<button type="button" class="quiet copy" onClick=${copy} aria-label=${copied.value ? "Copied" : "Copy message"} title="Copy message">${icon(copied.value ? "check" : "copy")}</button>`;
}

/** What a turn cost, in the provider's own count. @param {{turn: Turn}} props */
function Cost({ turn }) {
  const usage = turn.usage.value;
  if (!usage) return null;
  return html`<span class="cost" title=${`${usage.input} tokens read, ${usage.output} written`}>${count(usage.input)} in · ${count(usage.output)} out</span>`;
}

/** What a turn answered. @param {Chat} chat @param {Turn} turn */
function askedBy(chat, turn) {
  const ids = chat.ids;
  const asked = ids
    .slice(0, ids.indexOf(turn.id))
    .map((id) => chat.items.get(id))
    .findLast((item) => item instanceof UserMessage);
  return asked instanceof UserMessage && chat.writable ? asked : null;
}

/** @param {{chat: Chat, turn: Turn}} props */
function Again({ chat, turn }) {
  const asked = askedBy(chat, turn);
  return asked && html`<${Act} name="Ask again" picture="retry" run=${() => act((one) => one.again(chat, asked))} />`;
}

/** Ask once more what failed. @param {{chat: Chat, turn: Turn}} props */
function Retry({ chat, turn }) {
  const asked = askedBy(chat, turn);
  if (!asked) return null;
  return html`<button type="button" class="quiet" onClick=${() => act((one) => one.again(chat, asked))}>${icon("retry")}<span>Try again</span></button>`;
}
