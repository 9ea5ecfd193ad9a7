/** Parts of the page that are loaded when they are first shown. */
import { html, signal } from "./h.js";
import { problem } from "./store.js";

const AGAIN = 2_000; // milliseconds after a load that failed: the server may be back

export function unloaded() {
  problem.value = "This could not be loaded: the server does not answer.";
}

/** Do one of the actions on whole sessions. @param {(actions: typeof import("./actions.js")) => unknown} run */
export const act = (run) => import("./actions.js").then(run, unloaded);

/**
 * A component in a module of its own; nothing is there until it has arrived.
 * @param {() => Promise<{default: any}>} load
 */
export function later(load) {
  /** @type {import("./vendor/signals-core.js").Signal<any>} */
  const view = signal(null);
  const asked = signal(false);
  return (/** @type {any} */ props) => {
    if (!asked.value) {
      asked.value = true;
      load().then(
        (module) => (view.value = module.default),
        () => setTimeout(() => (asked.value = false), AGAIN),
      );
    }
    return view.value && html`<${view.value} ...${props} />`;
  };
}
