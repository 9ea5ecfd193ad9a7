/** Files on their way into a message: checked against the server's limits, read, shown, removable. Loaded with the first one. */
import { html } from "./h.js";
import { icon } from "./icons.js";
import { oneLine } from "./links.js";

const MAX_FILES = 4;
const MAX_BYTES = 6 * 1024 * 1024;

/** @typedef {{id: number, name: string, mime: string, data_url: string}} Picked */

let ids = 0;

/**
 * @param {Iterable<File>} files
 * @param {number} present how many there are already
 * @returns {Promise<{picked: Picked[], refused: string}>}
 */
export async function readFiles(files, present) {
  const taken = [];
  let refused = "";
  for (const file of files) {
    if (present + taken.length >= MAX_FILES) refused = `A message holds at most ${MAX_FILES} files.`;
    else if (file.size > MAX_BYTES) refused = `“${oneLine(file.name)}” is too large: a file holds at most ${MAX_BYTES / 1024 / 1024} MB.`;
    else if (!file.size) refused = `“${oneLine(file.name)}” is empty.`;
    else {
      try {
        taken.push(picked(file.name, file.type, await dataUrl(file)));
      } catch {
        refused = `“${oneLine(file.name)}” could not be read.`; // a folder, or gone since
      }
    }
  }
  return { picked: taken, refused };
}

/** @param {string} name @param {string} mime @param {string} data_url @returns {Picked} */
export const picked = (name, mime, data_url) => ({ id: ids++, name: oneLine(name) || "file", mime, data_url });

/** @param {Blob} file @returns {Promise<string>} */
export function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** @param {{files: Picked[], onRemove: (file: Picked) => void}} props */
export default function FileTiles({ files, onRemove }) {
  return html`<ul class="tiles">
    ${files.map((file) => {
      const picture = /^image\/(?:png|jpeg|gif|webp)$/.test(file.mime);
      return html`<li key=${file.id}>
        ${picture ? html`<img src=${file.data_url} alt="Image to send" title=${file.name} />` : html`<span class="file">${icon("attach")}<span>${file.name}</span></span>`}
        <button type="button" onClick=${() => onRemove(file)} aria-label=${picture ? "Remove image" : `Remove ${file.name}`}>${icon("cross")}</button>
      </li>`;
    })}
  </ul>`;
}
