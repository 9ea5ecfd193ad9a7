/** The command menu over the composer: a listbox that the text box drives. */
import { html } from "./h.js";
import { oneLine } from "./links.js";

/** @typedef {{name: string, usage: string, description: string}} Command */

/** The commands that the text may become, or none. @param {string} text @param {Command[]} commands */
export function matching(text, commands) {
  const typed = /^\/(\S*)$/.exec(text);
  if (!typed) return [];
  const word = typed[1].toLowerCase();
  return commands.filter((command) => command.name.replace(/^\//, "").toLowerCase().startsWith(word));
}

/** @param {Command} command */
export const textOf = (command) => `/${command.name.replace(/^\//, "")} `;

/** @param {{options: Command[], chosen: number, onPick: (command: Command) => void}} props */
export function SlashMenu({ options, chosen, onPick }) {
  return html`<ul class="slash" role="listbox" id="commands" aria-label="Commands">
    ${options.map(
      (command, at) =>
        html`<li
          key=${command.name}
          id=${`command-${at}`}
          role="option"
          aria-selected=${at === chosen}
          onMouseDown=${(/** @type {Event} */ event) => {
            event.preventDefault();
            onPick(command);
          }}
          ref=${(/** @type {HTMLElement | null} */ row) => at === chosen && row?.scrollIntoView({ block: "nearest" })}
        >
          <b>/${command.name.replace(/^\//, "")}</b><span>${oneLine(command.description)}</span>
        </li>`,
    )}
  </ul>`;
}
