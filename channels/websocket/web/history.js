/** Lines of a session's history to items of a thread. The same lines always give the same items. */
import { Turn, UserMessage, argumentLabel, finishedSegment } from "./items.js";
import { oneLine } from "./links.js";

/** @typedef {Record<string, any>} Line */

/** The text of a line, whatever form its content has. @param {any} content @returns {string} */
export function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part) => (typeof part === "string" ? part : (part?.text ?? ""))).join("\n");
}

/** @param {Line} line */
const timeOf = (line) => Date.parse(line.timestamp) || Date.now();

/**
 * A turn's answer stands behind the message it answers, also where a command was asked and answered in between.
 * @param {Line[]} lines oldest first
 * @param {string} running the id of the turn that runs now, or ""
 * @returns {(UserMessage | Turn)[]}
 */
export function itemsOf(lines, running) {
  /** @type {(UserMessage | Turn)[][]} a message, and the answers to it */
  const groups = [];
  /** @type {Map<string, (UserMessage | Turn)[]>} the group of a message, by its id */
  const homes = new Map();
  /** @type {Map<string, Turn>} a turn's newest article */
  const turns = new Map();
  let lastUser = "";
  const home = (/** @type {string} */ id) => {
    const group = homes.get(id) ?? [];
    if (!homes.has(id)) {
      homes.set(id, group);
      groups.push(group);
    }
    return group;
  };
  for (const [at, line] of lines.entries()) {
    if (line.role === "user") {
      const id = String(line.turn ?? `line:${line.index ?? timeOf(line)}:${at}`);
      const group = home(id);
      if (line.injected !== "command") lastUser = id;
      if (line.injected && line.injected !== "command") continue;
      const said = new UserMessage(id, textOf(line.content), { time: timeOf(line), media: line.media ?? [] });
      said.stage.value = id === running ? "working" : "done";
      group.push(said);
    } else if (line.role === "assistant") {
      const id = String(line.turn ?? lastUser);
      // A command's answer belongs to the command; what a turn says belongs to the last message it was given.
      const own = articleId(id, line.injected === "command" ? id : lastUser);
      let turn = turns.get(id);
      if (turn?.id !== own) {
        if (turn?.status.value === "working") turn.close("split");
        turn = new Turn(own, id);
        turn.time = timeOf(line);
        turns.set(id, turn);
        home(line.injected === "command" ? id : lastUser || id).push(turn);
      }
      answer(turn, line, at);
    } else if (line.role === "tool") {
      const failed = /^(error|refused|interrupted)\b/i.test(textOf(line.content)) || line.error === true;
      turns.get(String(line.turn ?? lastUser))?.step({ id: String(line.tool_call_id), status: failed ? "failed" : "done", text: textOf(line.content) });
    }
  }
  const items = groups.flat();
  for (const item of items) {
    if (item instanceof Turn && item.status.value === "working" && item.turn !== running) item.close(item.final ? "done" : "stopped");
  }
  return items;
}

/** The article of a turn that follows the given message: a steered turn has one more after each steering message. */
export function articleId(/** @type {string} */ turn, /** @type {string} */ after) {
  return !after || after === turn ? `turn:${turn}` : `turn:${turn}:${after}`;
}

/** @param {Turn} turn @param {Line} line @param {number} at */
function answer(turn, line, at) {
  if (line.reasoning) {
    turn.step({ id: `think:${line.turn}:${at}`, kind: "reasoning", label: "Thinking", status: "done", text: String(line.reasoning) });
  }
  const text = textOf(line.content);
  if (text.trim()) turn.segments.value = [...turn.segments.value, finishedSegment(`${turn.turn}:${at}`, text)];
  for (const call of line.tool_calls ?? []) {
    const fn = call.function ?? call;
    turn.step({ id: String(call.id), name: oneLine(fn.name), label: argumentLabel(fn.arguments), detail: detailOf(fn.arguments), status: "running" });
  }
  if (line.tool_calls?.length) return;
  if (line.media?.length) turn.media = line.media;
  turn.final = `${line.turn}.0`;
  turn.seconds.value = (line.latency_ms ?? 0) / 1000;
  if (line.usage) turn.usage.value = line.usage;
  turn.close(line.injected === "stopped" ? "stopped" : line.injected === "failed" ? "failed" : "done");
}

/** @param {unknown} given a tool's arguments */
export function detailOf(given) {
  if (given === undefined || given === null) return "";
  if (typeof given !== "string") return JSON.stringify(given, null, 2);
  try {
    return JSON.stringify(JSON.parse(given), null, 2);
  } catch {
    return given;
  }
}
