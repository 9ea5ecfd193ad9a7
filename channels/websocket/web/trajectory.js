/** What an outside agent did in a sub-session, step by step; its history has only what it was asked and answered. */
import { html, useEffect, useSignal } from "./h.js";
import { api } from "./api.js";
import { icon } from "./icons.js";
import { argumentLabel } from "./items.js";
import { oneLine } from "./links.js";
import Steps from "./steps.js";

/** @typedef {import("./items.js").Step} Step */

/** @type {Record<string, Step["status"]>} */
const STATES = { started: "running", completed: "done" };

/** A step as the server tells it, as one of the thread's. @param {any} step @param {number} at @returns {Step} */
function shown(step, at) {
  const tool = /^(?:command|tool|result|files)$/.test(step.kind);
  const names = (step.changes ?? []).map((/** @type {any} */ one) => `${one.kind ?? "change"} ${one.path ?? "?"}`).join(", ");
  const given = step.arguments && Object.keys(step.arguments).length ? JSON.stringify(step.arguments, null, 2) : "";
  return {
    id: `${at}`,
    kind: tool ? "tool" : "reasoning",
    name: oneLine(step.name || step.kind),
    label: oneLine(step.kind === "command" ? step.text : names || argumentLabel(step.arguments)),
    status: STATES[step.state ?? "completed"] ?? "failed",
    text: String((tool ? step.output : step.text) ?? ""),
    seconds: null,
    detail: given,
  };
}

/** @param {{session: string, parent: string, onClose: () => void}} props */
export default function Trajectory({ session, parent, onClose }) {
  /** @type {import("./vendor/signals-core.js").Signal<Step[] | null>} */
  const steps = useSignal(/** @type {any} */ (null));
  const wrong = useSignal("");
  useEffect(() => {
    api(`sessions/${encodeURIComponent(parent)}/children/${encodeURIComponent(session.replace(/^sub:/, ""))}/trajectory`).then(
      (found) => (steps.value = found.details.map(shown)),
      (error) => (wrong.value = String(error.message)),
    );
  }, [session, parent]);
  return html`<header>
      <h2>Steps</h2>
      <button type="button" class="quiet" onClick=${onClose} aria-label="Close">${icon("cross")}</button>
    </header>
    ${wrong.value && html`<p class="wrong" role="alert">${wrong.value}</p>`}
    ${steps.value && (steps.value.length ? html`<div class="activity"><ol><${Steps} turn=${{ steps }} /></ol></div>` : html`<p>None yet.</p>`)}`;
}
