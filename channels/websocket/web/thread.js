/** The thread: chunks of articles that leave the document when they are far away, at the height they had. */
import { html, signal, useEffect, useLayoutEffect, useMemo, useRef, useSignal } from "./h.js";
import { focusSoon } from "./a11y.js";
import { icon } from "./icons.js";
import { oneLine } from "./links.js";
import { Article } from "./messages.js";
import { Pin } from "./scroll.js";
import { load, loadOlder, say } from "./store.js";
import { dayName, daysAgo } from "./times.js";

const PATIENCE = 600; // milliseconds
const FAR = 1_800; // pixels from the view at which a chunk leaves

/** On paper all that was loaded is there. */
const printing = signal(false);
addEventListener("beforeprint", () => (printing.value = true));
addEventListener("afterprint", () => (printing.value = false));

/** @typedef {import("./chat.js").Chat} Chat */

/** @param {{chat: Chat, chunk: import("./chat.js").Chunk, pin: Pin, last: boolean, before: string}} props */
function ChunkView({ chat, chunk, pin, last, before }) {
  const mounted = useSignal(true);
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const box = place.current;
    if (!box) return undefined;
    const observer = new IntersectionObserver(
      ([entry]) => {
        const busy = last || box.contains(document.activeElement) || getSelection()?.containsNode(box, true);
        if (entry.isIntersecting) mounted.value = true;
        else if (mounted.value && !busy) {
          chunk.height = box.getBoundingClientRect().height;
          mounted.value = false;
        }
      },
      { root: pin.view, rootMargin: `${FAR}px 0px` },
    );
    observer.observe(box);
    return () => observer.disconnect();
  }, [last]);
  const shown = mounted.value || last || printing.value;
  useLayoutEffect(() => {
    if (place.current) place.current.style.height = shown ? "" : `${chunk.height}px`;
  }, [shown]);
  const ids = chunk.ids.value;
  return html`<div class="chunk" ref=${place}>
    ${shown &&
    ids.map((id, at) => {
      const item = chat.items.get(id);
      const earlier = chat.items.get(at ? ids[at - 1] : before);
      if (!item) return null;
      const day = !earlier ? daysAgo(item.time) > 0 : daysAgo(item.time) !== daysAgo(earlier.time);
      return [
        day ? html`<div class="day" key=${`day:${id}`} role="separator" aria-label=${dayName(item.time)}><span>${dayName(item.time)}</span></div>` : null,
        html`<${Article} key=${id} chat=${chat} item=${item} />`,
      ];
    })}
  </div>`;
}

/** The end of a chat, or the part of it that a search found. @param {{chat: Chat}} props */
export function Thread({ chat: whole }) {
  const chat = whole.view.value ?? whole;
  const view = useRef(/** @type {HTMLElement | null} */ (null));
  const content = useRef(/** @type {HTMLElement | null} */ (null));
  const pin = useMemo(() => new Pin(() => loadOlder(chat)), [chat]);
  const chunks = chat.chunks.value;
  const first = chunks[0]?.key;
  const fromEnd = pin.fromEnd;
  useLayoutEffect(() => pin.keep(fromEnd), [first]);
  useLayoutEffect(() => {
    if (view.current && content.current) pin.attach(view.current, content.current);
    return () => pin.detach();
  }, [pin]);
  // What one says oneself is always shown.
  const ids = chunks.at(-1)?.ids.value ?? [];
  const newest = ids.at(-1);
  useLayoutEffect(() => {
    const item = newest ? chat.items.get(newest) : null;
    if (item?.kind === "user" && item.status.value === "waiting") pin.toEnd();
  }, [newest]);
  const target = chat.target.value;
  useLayoutEffect(() => {
    const found = target && view.current?.querySelector(`article[data-id="${CSS.escape(target)}"]`);
    if (!found) return;
    pin.hold(found);
    found.classList.add("found");
    /** @type {HTMLElement} */ (found).tabIndex = -1;
    /** @type {HTMLElement} */ (found).focus({ preventScroll: true });
  }, [target, chunks]);
  const state = chat.state.value;
  // A chat that is opened shows itself when its formulas are there, so that it does not move; it does not wait for long.
  const opening = useSignal(true);
  useEffect(() => {
    if (state !== "ready") return undefined;
    const timer = setTimeout(() => (opening.value = false), PATIENCE);
    return () => clearTimeout(timer);
  }, [state]);
  const toEnd = () => {
    chat.target.value = "";
    whole.view.value = null;
    pin.toEnd();
    focusSoon(".scroll");
  };
  return html`<div class="scroll" ref=${view} tabindex="0" role="region" aria-label="Messages">
      <h2 class="unseen">Conversation</h2>
      <div class=${`column ${opening.value ? "opening" : ""}`} ref=${content} role="log" aria-live="off" aria-label="Conversation">
        ${chat.before.value !== null && html`<div class="earlier" aria-hidden="true"></div>`}
        ${chunks.map(
          (chunk, at) =>
            html`<${ChunkView}
              key=${chunk.key}
              chat=${chat}
              chunk=${chunk}
              pin=${pin}
              last=${at === chunks.length - 1}
              before=${at ? (chunks[at - 1].ids.value.at(-1) ?? "") : ""}
            />`,
        )}
        ${chat.empty && state === "ready" && html`<${Welcome} chat=${chat} />`}
        ${chat.empty && state === "loading" && html`<div class="welcome late">Loading…</div>`}
        ${state === "failed" &&
        html`<div class="welcome" role="alert">
          <p>This chat could not be loaded.</p>
          <button type="button" class="plain" onClick=${() => load(chat)}>Try again</button>
        </div>`}
      </div>
    </div>
    ${(pin.away.value || whole.view.value) &&
    html`<div class="jump"><button type="button" onClick=${toEnd} aria-label="Jump to latest">${icon("down")}</button></div>`}`;
}

const ALWAYS = "What can you do?";
const SUGGESTED = 3;

/** @param {{chat: Chat}} props */
function Welcome({ chat }) {
  if (!chat.writable) return html`<div class="welcome"><p>Nothing was said here yet.</p></div>`;
  // The skills' own; their place is kept free until they are known, so that nothing moves.
  const about = chat.about.value;
  const ideas = about ? [...(about.suggestions ?? []).map(oneLine), ALWAYS].slice(0, SUGGESTED) : [];
  return html`<div class="welcome">
    <h2>What shall we do?</h2>
    <ul>
      ${ideas.map((text) => html`<li><button type="button" onClick=${() => say(chat, text)}>${text}</button></li>`)}
    </ul>
  </div>`;
}
