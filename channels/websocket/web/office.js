/** The owner's decisions: who is let in, and what becomes of replies that did not arrive. */
import { html, useSignal } from "./h.js";
import { focusSoon } from "./a11y.js";
import { api } from "./api.js";
import { letters, people } from "./duty.js";
import { icon } from "./icons.js";
import { cleanBidi, oneLine } from "./links.js";
import { channelName } from "./sidebar.js";
import { clock, dayName } from "./times.js";

/** @param {string} time */
const when = (time) => `${dayName(Date.parse(time))}, ${clock(Date.parse(time))}`;

/** @param {{onClose: () => void}} props */
export default function Office({ onClose }) {
  const wrong = useSignal("");
  const act = async (/** @type {string} */ path, /** @type {object} */ body) => {
    try {
      const answer = await api(path, { method: "POST", body });
      if (answer.people) people.value = answer.people;
      if (answer.letters) letters.value = answer.letters;
      wrong.value = "";
      focusSoon(".panel button"); // the button that was pressed is gone
    } catch (error) {
      wrong.value = error instanceof Error ? error.message : String(error);
    }
  };
  const asking = people.value.filter((one) => one.status === "pending");
  const paired = people.value.filter((one) => one.status !== "pending");
  const person = (/** @type {any} */ one) => oneLine(one.name) || oneLine(one.sender);
  const decide = (/** @type {any} */ one, /** @type {string} */ action) => act("pairing", { channel: one.channel, sender: one.sender, action });
  return html`<header>
      <h2>For the owner</h2>
      <button type="button" class="quiet" onClick=${onClose} aria-label="Close">${icon("cross")}</button>
    </header>
    ${wrong.value && html`<p class="wrong" role="alert">${wrong.value}</p>`}
    <section>
      <h3>Asking to be let in</h3>
      ${!asking.length && html`<p>Nobody.</p>`}
      <ul class="list">
        ${asking.map(
          (one) =>
            html`<li key=${`${one.channel}:${one.sender}`}>
              <p><b>${person(one)}</b> <span>${channelName(one.channel)} · ${oneLine(one.sender)} · code ${oneLine(one.code)}</span></p>
              <div><button type="button" class="primary" aria-label=${`Let ${person(one)} in`} onClick=${() => decide(one, "approve")}>Let in</button><button type="button" class="plain" aria-label=${`Refuse ${person(one)}`} onClick=${() => decide(one, "deny")}>Refuse</button></div>
            </li>`,
        )}
      </ul>
    </section>
    ${paired.length > 0 &&
    html`<section>
      <h3>Let in</h3>
      <ul class="list">
        ${paired.map(
          (one) =>
            html`<li key=${`${one.channel}:${one.sender}`}>
              <p><b>${person(one)}</b> <span>${channelName(one.channel)} · ${oneLine(one.sender)}</span></p>
              <div><button type="button" class="plain" aria-label=${`Revoke ${person(one)}`} onClick=${() => decide(one, "revoke")}>Revoke</button></div>
            </li>`,
        )}
      </ul>
    </section>`}
    <section>
      <h3>Replies that did not arrive</h3>
      ${!letters.value.length && html`<p>None.</p>`}
      <ul class="list">
        ${letters.value.map(
          (one) =>
            html`<li key=${one.id}>
              <p><b>${cleanBidi(one.text).slice(0, 200)}</b> <span>to ${oneLine(one.session)} · ${when(one.created_at)}</span> <span class="wrong">${oneLine(one.error)}</span></p>
              <div>
                <button type="button" class="primary" aria-label=${`Send reply ${one.id} again`} onClick=${() => act("outbox", { id: one.id, action: "resend" })}>Send again</button
                ><button type="button" class="plain" aria-label=${`Drop reply ${one.id}`} onClick=${() => act("outbox", { id: one.id, action: "drop" })}>Drop</button>
              </div>
            </li>`,
        )}
      </ul>
    </section>`;
}
