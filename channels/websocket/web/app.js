/** The page: sessions at the left, one chat at the right. */
import { effect, html, render, signal, useEffect, useRef } from "./h.js";
import { Announcer, focusSoon, rowOf } from "./a11y.js";
import { refused } from "./api.js";
import { Composer } from "./composer.js";
import { GoalStrip } from "./goal.js";
import { icon } from "./icons.js";
import { act, later } from "./later.js";
import { oneLine } from "./links.js";
import { Sidebar, channelName, titleOf } from "./sidebar.js";
import "./keys.js";
import { unseen } from "./notify.js";
import { Panel, show } from "./panel.js";
import { connection, current, problem, run, sessions, toast } from "./store.js";
import { Thread } from "./thread.js";

const SignIn = later(() => import("./sign_in.js"));
const drawer = signal(false);

function title() {
  const row = sessions.value.find((one) => one.key === current.value.key);
  return row ? titleOf(row) : "New chat";
}

function Header() {
  return html`<header class="head">
    <button type="button" class="round quiet menu" aria-label="Sessions" aria-expanded=${drawer.value} aria-controls="sessions" onClick=${() => (drawer.value = true)}>
      ${icon("menu")}
    </button>
    <${Parent} />
    <h1 class="head-title" dir="auto" title=${title()}>${title()}</h1>
    <div class="connection" role="status">${connection.value === "lost" && html`<span>Reconnecting…</span>`}</div>
  </header>`;
}

/** A sub-session names the session that it works for, a copy the one it was made from. */
function Parent() {
  const about = current.value.about.value;
  const parent = about?.parent || about?.forked_from;
  if (!parent) return null;
  const row = sessions.value.find((one) => one.key === parent);
  const name = row ? titleOf(row) : oneLine(about.parent_title || parent);
  return html`<nav class="crumb" aria-label="Where this comes from"><a href=${`#${encodeURIComponent(parent)}`}>${name}</a><span aria-hidden="true">${about.parent ? "›" : "⑂"}</span></nav>`;
}

/** What one can do with a chat that is another channel's. @param {{chat: import("./chat.js").Chat, where: string}} props */
function ReadOnly({ chat, where }) {
  const parent = chat.about.value?.parent;
  const runs = sessions.value.find((one) => one.key === chat.key)?.running;
  return html`<div class="readonly">
    <p>${chat.channel === "sub" ? "A sub-session works by itself; you can read along." : `This chat is on ${where || "another channel"}. You can read it here.`}</p>
    ${parent
      ? html`<div>
          <a class="plain" href=${`#${encodeURIComponent(parent)}`}>Back to the chat it works for</a>
          ${chat.about.value.model?.startsWith("executor/") && html`<button type="button" class="plain" onClick=${() => show("steps", "Steps", { session: chat.key, parent })}>Its steps</button>`}
          ${runs && html`<button type="button" class="plain wrong" onClick=${() => act((one) => one.end(chat.key, parent))}>Stop it</button>`}
        </div>`
      : html`<button type="button" class="primary" onClick=${() => act((one) => one.fork(chat.key))}>Continue here</button>`}
  </div>`;
}

function undo() {
  const key = toast.value?.key ?? "";
  toast.value?.undo?.();
  focusSoon(rowOf(key));
}

function Notes() {
  return html`<div class="notes" role="status">
    ${problem.value &&
    html`<div class="note" role="alert">
      <span>${problem.value}</span><button type="button" class="quiet" aria-label="Close" onClick=${() => {
        problem.value = "";
        focusSoon("#message");
      }}>${icon("cross")}</button>
    </div>`}
    ${toast.value &&
    html`<div class="note"><span dir="auto">${toast.value.text}</span>${
      toast.value.undo
        ? html`<button type="button" class="plain" onClick=${undo}>Undo</button>`
        : html`<button type="button" class="quiet" aria-label="Close" onClick=${() => {
            toast.value = null;
            focusSoon("#message");
          }}>${icon("cross")}</button>`
    }</div>`}
  </div>`;
}

function App() {
  const side = useRef(/** @type {HTMLElement | null} */ (null));
  const chat = current.value;
  const open = drawer.value;
  useEffect(() => {
    if (!open) return undefined;
    side.current?.querySelector("button")?.focus();
    const keys = (/** @type {KeyboardEvent} */ event) => {
      if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
      if (event.key === "Escape") drawer.value = false;
      if (event.key === "Tab") keepInside(side.current, event);
    };
    addEventListener("keydown", keys);
    return () => {
      removeEventListener("keydown", keys);
      // By now `inert` has taken the focus from the button that opened the drawer.
      /** @type {HTMLElement | null} */ (document.querySelector(".menu"))?.focus();
    };
  }, [open]);
  const where = channelName(chat.channel);
  return html`<div class=${`app ${open ? "drawn" : ""}`}>
      <div class="side" ref=${side}><${Sidebar} onLeave=${() => (drawer.value = false)} /></div>
      <div class="scrim" onClick=${() => (drawer.value = false)}></div>
      <main id="main" tabindex="-1" aria-label="Chat" inert=${open}>
        <${Header} />
        <${GoalStrip} chat=${chat} />
        <div class="thread"><${Thread} key=${chat.view.value ? `${chat.key} at ${chat.view.value.target.value}` : chat.key} chat=${chat} /></div>
        <${Notes} />
        ${chat.writable
          ? html`<${Composer} key=${chat.key} chat=${chat} />`
          : html`<${ReadOnly} chat=${chat} where=${where} />`}
      </main>
    </div>
    <${Announcer} />${refused.value && html`<${SignIn} />`}<${Panel} />`;
}

/** @param {HTMLElement | null} box @param {KeyboardEvent} event */
function keepInside(box, event) {
  const stops = [...(box?.querySelectorAll("a[href], button, input") ?? [])].filter((one) => /** @type {HTMLElement} */ (one).offsetParent);
  const first = /** @type {HTMLElement} */ (stops[0]);
  const last = /** @type {HTMLElement} */ (stops[stops.length - 1]);
  const edge = event.shiftKey ? first : last;
  if (document.activeElement !== edge) return;
  event.preventDefault();
  (event.shiftKey ? last : first).focus();
}

document.querySelector("[data-skip]")?.addEventListener("click", (event) => {
  event.preventDefault(); // the address names the chat
  (document.getElementById("message") ?? document.getElementById("main"))?.focus();
});
effect(() => {
  const count = unseen.value ? `(${unseen.value}) ` : "";
  document.title = count + (title() === "New chat" ? "nanobot" : `${title()} · nanobot`);
});
matchMedia("(min-width: 760px)").addEventListener("change", () => (drawer.value = false));
render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
run();

// The first page of messages is drawn: what a person waits for.
effect(() => {
  if (current.value.state.value === "ready" && !performance.getEntriesByName("ready").length) {
    requestAnimationFrame(() => performance.mark("ready"));
  }
});
