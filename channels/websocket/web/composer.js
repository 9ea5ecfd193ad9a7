/** Where one writes: text, files, commands; send, which is stop while something runs. */
import { html, signal, useEffect, useLayoutEffect, useRef, useSignal } from "./h.js";
import { fine, focusSoon } from "./a11y.js";
import { keepDraft, readDraft } from "./drafts.js";
import { icon } from "./icons.js";
import { later, unloaded } from "./later.js";
import { oneLine } from "./links.js";
import { SlashMenu, matching, textOf } from "./slash.js";
import { commands, say, stop } from "./store.js";
import { count } from "./times.js";

/** @typedef {import("./chat.js").Chat} Chat */

const TALLEST = 220; // pixels
const FileTiles = later(() => import("./files.js"));

/** Takes the files that are dropped or pasted anywhere on the page. @param {File[]} files */
let takes = (files) => {};
const over = signal(false);
for (const name of ["dragover", "dragleave", "drop"]) {
  addEventListener(name, (event) => {
    const { dataTransfer, relatedTarget } = /** @type {DragEvent} */ (event);
    if (!dataTransfer?.types.includes("Files")) return;
    event.preventDefault(); // else the browser would leave the page for the file
    over.value = name === "dragover" || (name === "dragleave" && relatedTarget !== null);
    if (name === "drop") takes([...dataTransfer.files]);
  });
}
addEventListener("paste", (event) => {
  const { types, files } = /** @type {DataTransfer} */ (event.clipboardData);
  // Words and cells come with a picture of themselves: there the text is meant.
  if (!files.length || (types.includes("text/html") && types.includes("text/plain"))) return;
  event.preventDefault(); // with a file comes its name as text
  takes([...files]);
});

/** What this conversation cost so far: money where the prices are known, else tokens. @param {any} about */
function costOf(about) {
  const tokens = (about.spent?.input ?? 0) + (about.spent?.output ?? 0);
  if (!tokens) return "";
  if (about.dollars === undefined) return ` · ${count(tokens)} tokens`;
  return ` · $${about.dollars.toFixed(about.dollars < 0.1 ? 3 : 2)}`;
}

/** Which model answers here, how full its context is, and what it cost. @param {{chat: Chat}} props */
function Status({ chat }) {
  const about = chat.about.value;
  if (!about?.model) return null;
  const share = about.context_window ? Math.min(100, Math.round((100 * (about.context_tokens ?? 0)) / about.context_window)) : 0;
  const name = oneLine(about.model);
  return html`<span class=${`model ${share >= 80 ? "full" : ""}`} title=${`${name}: about ${count(about.context_tokens ?? 0)} of ${count(about.context_window ?? 0)} tokens of context are used; ${count(about.spent?.input ?? 0)} tokens read and ${count(about.spent?.output ?? 0)} written in this conversation`}
    ><span>${name.slice(name.indexOf("/") + 1)}</span>${about.context_window ? ` · ${share} %` : ""}${costOf(about)}</span
  >`;
}

/** @param {{chat: Chat}} props */
export function Composer({ chat }) {
  const box = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const text = useSignal(readDraft(chat.key));
  const { files } = chat;
  const reading = useRef(Promise.resolve());
  const refused = useSignal("");
  const chosen = useSignal(0);
  const closed = useSignal(false);

  useEffect(() => {
    if (fine()) box.current?.focus({ preventScroll: true });
    takes = take;
    return () => (takes = () => {});
  }, []);
  useLayoutEffect(() => {
    const area = box.current;
    if (!area) return;
    area.style.height = "auto";
    area.style.height = `${Math.min(TALLEST, area.scrollHeight)}px`;
  }, [text.value]);

  // Asked for at every key too, for Enter can come sooner than the drawing of what was typed before it.
  const offered = () => (closed.value ? [] : matching(text.value, commands.value));
  const options = offered();
  const running = Boolean(chat.running.value);
  const ready = () => text.value.trim() !== "" || files.value.length > 0;

  const write = (/** @type {string} */ value) => {
    text.value = value;
    chosen.value = 0;
    closed.value = false;
    keepDraft(chat.key, value);
  };
  const submit = async () => {
    await reading.current;
    if (!ready()) return;
    const words = text.value.trim();
    const sent = files.value;
    write("");
    files.value = [];
    refused.value = "";
    say(chat, words, sent);
    box.current?.focus();
  };
  // One after another, and a message that is sent meanwhile waits for them.
  const take = (/** @type {File[]} */ list) => {
    reading.current = reading.current.then(async () => {
      try {
        const { readFiles } = await import("./files.js");
        const { picked, refused: reason } = await readFiles(list, files.value.length);
        files.value = [...files.value, ...picked];
        refused.value = reason;
      } catch {
        unloaded();
      }
    });
  };
  const pick = (/** @type {import("./slash.js").Command} */ command) => {
    write(textOf(command));
    box.current?.focus();
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    // While an input method composes a word, Enter and the arrows are its own.
    if (event.isComposing || event.keyCode === 229) return;
    const options = offered();
    if (options.length) {
      const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
      if (step) chosen.value = (chosen.value + step + options.length) % options.length;
      else if (event.key === "Escape") closed.value = true;
      else if (event.key === "Tab" && !event.shiftKey) pick(options[chosen.value]);
      else if (event.key === "Enter" && text.value.trim().slice(1) !== options[chosen.value].name.replace(/^\//, "")) pick(options[chosen.value]);
      else if (event.key === "Enter") submit();
      else return;
      event.preventDefault();
    } else if (event.key === "Escape" && running) stop(chat);
    // A keyboard on the screen has no Shift+Enter: there Enter is a new line.
    else if (event.key === "Enter" && !event.shiftKey && !event.altKey && (fine() || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      submit();
    }
  };

  return html`<div class="composer">
    ${options.length > 0 && html`<${SlashMenu} options=${options} chosen=${chosen.value} onPick=${pick} />`}
    ${refused.value && html`<p class="refused" role="alert">${refused.value}</p>`}
    <div class=${`card ${over.value ? "over" : ""}`}>
      ${files.value.length > 0 && html`<${FileTiles} files=${files.value} onRemove=${(/** @type {any} */ gone) => {
        files.value = files.value.filter((file) => file !== gone);
        focusSoon("#message");
      }} />`}
      <textarea
        id="message"
        dir="auto"
        ref=${box}
        rows="1"
        aria-label="Message"
        placeholder=${over.value ? "Drop to attach" : running ? "Add to what runs…" : "Write a message, or / for commands"}
        aria-autocomplete="list"
        aria-controls=${options.length ? "commands" : undefined}
        aria-activedescendant=${options.length ? `command-${chosen.value}` : undefined}
        value=${text.value}
        onInput=${(/** @type {any} */ event) => write(event.target.value)}
        onKeyDown=${keys}
      ></textarea>
      <div class="tools">
        <button type="button" class="round quiet" aria-label="Attach a file" onClick=${() => input.current?.click()}>${icon("attach")}</button>
        <input
          type="file"
          multiple
          hidden
          ref=${input}
          tabindex="-1"
          aria-label="Files to send"
          onChange=${(/** @type {any} */ event) => {
            take([...event.target.files]);
            event.target.value = "";
          }}
        />
        <span class="hint" aria-hidden="true">${!fine() ? "" : running ? "Enter adds · Esc stops" : text.value && "Enter sends · Shift+Enter for a new line"}</span>
        <${Status} chat=${chat} />
        ${running && ready() && html`<button type="button" class="round quiet" aria-label="Add to what runs" title="Add to what runs" onClick=${submit}>${icon("send")}</button>`}
        ${running
          ? html`<button type="button" class="round go" aria-label="Stop" key="stop" onClick=${() => {
              stop(chat);
              focusSoon("#message");
            }} disabled=${chat.stopping.value}>${icon("stop")}</button>`
          : html`<button type="button" class="round go" aria-label="Send" key="send" onClick=${submit} disabled=${!ready()}>${icon("send")}</button>`}
      </div>
    </div>
  </div>`;
}
