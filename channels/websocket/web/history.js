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
 * @param {Line[]} lines oldest first
 * @param {string} running the id of the turn that runs now, or ""
 * @returns {(UserMessage | Turn)[]}
 */
export function itemsOf(lines, running) {
  /** @type {(UserMessage | Turn)[]} */
  const items = [];
  let turn = /** @type {Turn | null} */ (null);
  let lastUser = "";
  for (const [at, line] of lines.entries()) {
    if (line.role === "user") {
      const id = String(line.turn ?? `line:${line.index ?? timeOf(line)}:${at}`);
      lastUser = id;
      if (line.injected && line.injected !== "command") continue;
      const said = new UserMessage(id, textOf(line.content), { time: timeOf(line), media: line.media ?? [] });
      said.stage.value = id === running ? "working" : "done";
      items.push(said);
    } else if (line.role === "assistant") {
      const id = String(line.turn ?? lastUser);
      if (turn?.turn !== id || items[items.length - 1] !== turn) {
        if (turn?.turn === id && turn.status.value === "working") turn.close("split");
        turn = new Turn(articleId(id, lastUser), id);
        turn.time = timeOf(line);
        items.push(turn);
      }
      answer(turn, line, at);
    } else if (line.role === "tool" && turn) {
      const failed = /^(error|refused|interrupted)\b/i.test(textOf(line.content)) || line.error === true;
      turn.step({ id: String(line.tool_call_id), status: failed ? "failed" : "done", text: textOf(line.content) });
    }
  }
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
