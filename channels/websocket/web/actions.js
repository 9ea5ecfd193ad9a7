/** What one does with a whole session, now and then: loaded at the first use. */
import { batch } from "./h.js";
import { api, token } from "./api.js";
import { Chat } from "./chat.js";
import { draftFor } from "./drafts.js";
import { itemsOf } from "./history.js";
import { dataUrl, picked } from "./files.js";
import { Turn } from "./items.js";
import { oneLine } from "./links.js";
import { UNDO, current, forget, load, note, open, openNew, page, problem, refresh, removed, say, sessions, toast } from "./store.js";

/** @typedef {import("./items.js").UserMessage} UserMessage */

const AROUND = 24; // lines on either side of what was found

/** @param {string} key */
const path = (key) => `sessions/${encodeURIComponent(key)}`;

const headers = () => (token() ? { Authorization: `Bearer ${token()}` } : undefined);

/** @param {string} what @param {unknown} error */
function failed(what, error) {
  problem.value = `${what}: ${error instanceof Error ? error.message : error}`;
}

/** @param {string} key @param {string} title */
export async function rename(key, title) {
  const words = oneLine(title).slice(0, 200);
  const before = sessions.value;
  sessions.value = before.map((row) => (row.key === key ? { ...row, title: words } : row));
  try {
    await api(path(key), { method: "PATCH", body: { title: words } });
  } catch (error) {
    sessions.value = before;
    failed("The name was not changed", error);
  }
  refresh();
}

/** Sessions that are deleted once their undo has run out, with their names. @type {Map<string, string>} */
const doomed = new Map();
let timer = 0;
let shown = ""; // the one of them that was open

/** Delete a session, unless it is undone in time; with those that were deleted just before. @param {string} key */
export function drop(key) {
  doomed.set(key, oneLine(sessions.value.find((row) => row.key === key)?.title).slice(0, 60) || "Chat");
  removed.value = new Set([...removed.value, key]);
  if (current.value.key === key) {
    shown = key;
    openNew(true);
  }
  clearTimeout(timer);
  timer = setTimeout(carryOut, UNDO);
  toast.value = { text: doomed.size > 1 ? `Deleted ${doomed.size} chats` : `Deleted “${doomed.get(key)}”`, undo: takeBack, key };
}

function takeBack() {
  clearTimeout(timer);
  toast.value = null;
  if (doomed.has(shown)) open(shown);
  spare([...doomed.keys()]);
}

/** @param {string[]} keys */
function spare(keys) {
  for (const key of keys) doomed.delete(key);
  removed.value = new Set([...removed.value].filter((one) => !keys.includes(one)));
}

async function carryOut() {
  clearTimeout(timer);
  const keys = [...doomed];
  doomed.clear();
  if (toast.value?.undo === takeBack) toast.value = null;
  await Promise.all(
    keys.map(async ([key, title]) => {
      try {
        await api(path(key), { method: "DELETE" });
        sessions.value = sessions.value.filter((row) => row.key !== key);
        forget(key);
      } catch (error) {
        failed(`“${title}” was not deleted`, error);
      }
    }),
  );
  spare(keys.map(([key]) => key));
}
// Who leaves the page meant what they did.
addEventListener("pagehide", carryOut);

/** Save a session as a file. @param {string} key */
export async function save(key) {
  try {
    const answer = await fetch(new URL(`api/${path(key)}/export`, document.baseURI), { headers: headers() });
    if (!answer.ok) throw new Error(answer.status === 404 ? "nothing was said in it yet" : `error ${answer.status}`);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = `${key.replace(/[^\w-]+/g, "-")}.jsonl`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  } catch (error) {
    failed("The session was not exported", error);
  }
}

/** A message's files, as one would have picked them. @param {UserMessage} said */
function filesOf(said) {
  return Promise.all(
    said.media.map(async ({ name, mime, url = "" }) => {
      if (url.startsWith("data:")) return picked(name, mime, url);
      const answer = await fetch(new URL(url, document.baseURI), { headers: headers() });
      if (!answer.ok) throw new Error(`“${oneLine(name)}” is not there any more`);
      return picked(name, mime, await dataUrl(new Blob([await answer.blob()], { type: mime })));
    }),
  );
}

/** Say something once more, with its files. @param {Chat} chat @param {UserMessage} said */
export async function again(chat, said) {
  try {
    say(chat, said.text, await filesOf(said));
  } catch (error) {
    failed("It was not asked again", error);
  }
}

/**
 * Go on in a copy of a session; the original stays as it is.
 * @param {string} key
 * @param {{before?: string, through?: string}} [until] a user's message, or an answer
 * @param {UserMessage} [said] what to put into the message box
 */
export async function fork(key, until = {}, said) {
  try {
    const files = said ? await filesOf(said) : [];
    const made = await api(`${path(key)}/fork`, { method: "POST", body: until });
    if (said?.text) draftFor(made.key, said.text);
    open(made.key);
    current.value.files.value = files;
    refresh();
    note(until.before ? "This is a copy up to your message; the chat it came from is unchanged." : "This is a copy; what you write here stays here.");
  } catch (error) {
    failed("The chat was not copied", error);
  }
}

/** End a sub-session that runs; what it did so far stays. @param {string} key @param {string} parent */
export async function end(key, parent) {
  try {
    await api(`${path(parent)}/children/${key.replace(/^sub:/, "")}/end`, { method: "POST", body: {} });
    refresh();
  } catch (error) {
    failed("The sub-session was not stopped", error);
  }
}

/** Show a place in a session's history. @param {string} key @param {number} index the message's number */
export async function openAt(key, index) {
  open(key);
  const chat = current.value;
  try {
    const view = new Chat(key);
    const end = index + AROUND;
    let { messages, before, total } = await page(chat, end, 2 * AROUND);
    const last = Math.min(end, total);
    const wanted = messages[index - (last - messages.length)];
    while (before !== null && messages[0]?.role !== "user") {
      const older = await page(chat, before, AROUND);
      messages = [...older.messages, ...messages];
      before = older.before;
    }
    if (!wanted) throw new Error("the message is not there any more");
    // What is shown whole at the end of the chat needs no view of its own.
    if (last >= total) await load(chat);
    const place = last >= total ? chat : view;
    batch(() => {
      if (place === view) {
        view.prepend(itemsOf(messages, ""));
        view.before.value = before;
        view.state.value = "ready";
      }
      place.target.value = targetOf(place, wanted);
      chat.view.value = place === view ? view : null;
    });
  } catch (error) {
    failed("The place was not found", error);
  }
}

/** @param {Chat} chat @param {any} line */
function targetOf(chat, line) {
  const turn = String(line.turn ?? "");
  if (line.role === "user") return chat.find(turn)?.id ?? "";
  return [...chat.items.values()].findLast((item) => item instanceof Turn && item.turn === turn)?.id ?? "";
}
