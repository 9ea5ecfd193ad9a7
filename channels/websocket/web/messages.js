/** One article of the thread: what the user said, or a turn's answer. */
import { html, useEffect, useSignal } from "./h.js";
import { Activity, NowLine } from "./activity.js";
import { fileUrl } from "./api.js";
import { copyText } from "./code.js";
import { icon } from "./icons.js";
import { UserMessage } from "./items.js";
import { oneLine } from "./links.js";
import { Markdown } from "./render.js";
import { say, sayAgain } from "./store.js";
import { clock } from "./times.js";

/** @typedef {import("./chat.js").Chat} Chat */
/** @typedef {import("./items.js").Turn} Turn */

/** @param {{chat: Chat, item: UserMessage | Turn}} props */
export function Article({ chat, item }) {
  return item instanceof UserMessage ? html`<${You} chat=${chat} item=${item} />` : html`<${Answer} chat=${chat} turn=${item} />`;
}

/** @param {{chat: Chat, item: UserMessage}} props */
function You({ chat, item }) {
  const status = item.status.value;
  return html`<article class=${`you ${status}`} aria-label="You said" data-id=${item.id}>
    ${item.media.length > 0 && html`<div class="files">${item.media.map((file) => html`<${Shown} key=${file.id ?? file.name} file=${file} />`)}</div>`}
    ${item.text && html`<div class="bubble">${item.text}</div>`}
    <div class="foot">
      ${status === "waiting" && html`<span>Sending…</span>`}
      ${status === "failed" &&
      html`<span class="wrong">Not sent: ${oneLine(item.error.value)}</span>
        <button type="button" class="quiet" onClick=${() => sayAgain(chat, item)}>${icon("retry")}<span>Send again</span></button>`}
      ${status === "accepted" && html`<time dateTime=${new Date(item.time).toISOString()}>${clock(item.time)}</time><${Copy} text=${() => item.text} />`}
    </div>
  </article>`;
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
  if (url.value && /^image\/(?:png|jpeg|gif|webp)$/.test(file.mime ?? "")) return html`<img src=${url.value} alt=${name} />`;
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
    ${turn.media?.length > 0 && html`<div class="files">${turn.media.map((/** @type {any} */ file) => html`<${Shown} key=${file.id} file=${file} />`)}</div>`}
    <div class="foot">
      ${working && html`<${Busy} turn=${turn} />`}
      ${status === "stopped" && html`<span class="state">Stopped</span>`}
      ${status === "failed" && html`<span class="state wrong">Failed</span><${Retry} chat=${chat} turn=${turn} />`}
      ${!working && status !== "split" && html`<${Copy} text=${() => turn.text} /><time dateTime=${new Date(turn.time).toISOString()}>${clock(turn.time)}</time>`}
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
    await copyText(text());
    copied.value = true;
    setTimeout(() => (copied.value = false), 1_600);
  };
  return html`<button type="button" class="quiet copy" onClick=${copy} aria-label=${copied.value ? "Copied" : "Copy message"}>${icon(copied.value ? "check" : "copy")}</button>`;
}

/** Ask once more what failed. @param {{chat: Chat, turn: Turn}} props */
function Retry({ chat, turn }) {
  const ids = chat.ids;
  const asked = ids
    .slice(0, ids.indexOf(turn.id))
    .map((id) => chat.items.get(id))
    .findLast((item) => item instanceof UserMessage);
  if (!(asked instanceof UserMessage) || !chat.writable || !asked.text) return null;
  return html`<button type="button" class="quiet" onClick=${() => say(chat, asked.text)}>${icon("retry")}<span>Try again</span></button>`;
}
