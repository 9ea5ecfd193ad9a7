/** What was begun to be written, per chat; it outlives the page. */

/** @param {string} key */
const place = (key) => `nanobot.draft:${location.hash.length > 1 ? key : "new"}`;

/** @param {string} key */
export function readDraft(key) {
  try {
    return localStorage.getItem(place(key)) ?? "";
  } catch {
    return "";
  }
}

/** @param {string} key @param {string} text */
export function keepDraft(key, text) {
  write(place(key), text);
}

/** For a chat that is about to be opened. @param {string} key @param {string} text */
export function draftFor(key, text) {
  write(`nanobot.draft:${key}`, text);
}

/** @param {string} name @param {string} text */
function write(name, text) {
  try {
    if (text) localStorage.setItem(name, text);
    else localStorage.removeItem(name);
  } catch {
    // a full or forbidden storage loses the draft, not the message
  }
}
