/** A chat's frames to changes of its items. Applying a frame twice, or late, changes nothing that is final. */
import { batch } from "./h.js";
import { Turn, UserMessage, argumentLabel } from "./items.js";
import { articleId, detailOf } from "./history.js";
import { oneLine } from "./links.js";

/** @typedef {import("./chat.js").Chat} Chat */

/** @param {Chat} chat @param {any} frame */
export function apply(chat, frame) {
  batch(() => handlers[frame.event]?.(chat, frame));
}

/** @type {Record<string, (chat: Chat, frame: any) => void>} */
const handlers = {
  accepted(chat, frame) {
    const item = chat.items.get(String(frame.id));
    // The history named it already: the receipt was lost and the message is known twice.
    if (chat.items.has(String(frame.message_id)) && frame.message_id !== frame.id) {
      chat.remove(String(frame.id));
      return;
    }
    if (frame.message_id) chat.alias.set(String(frame.message_id), String(frame.id));
    if (item instanceof UserMessage) {
      item.status.value = "accepted";
      item.stage.value ||= "queued";
    }
  },

  user_message(chat, frame) {
    const id = String(frame.message_id ?? frame.id);
    const known = chat.find(id) ?? (frame.id === undefined ? undefined : chat.items.get(String(frame.id)));
    if (known instanceof UserMessage) {
      if (known.id !== id) chat.alias.set(id, known.id);
      known.status.value = "accepted";
      return;
    }
    const time = Date.parse(frame.timestamp) || Date.now();
    const said = new UserMessage(id, String(frame.text ?? ""), { media: frame.media ?? [], time });
    said.stage.value = "queued";
    chat.add(said);
  },

  goal_status(chat, frame) {
    if (frame.status !== "running") {
      chat.rests();
      return;
    }
    const turn = open(chat, frame);
    if (!turn) return;
    chat.runs(turn.turn, true);
    stage(chat, frame.answers ?? [turn.turn], "working");
    turn.startedAt = frame.started_at ?? Date.now() / 1000;
    // A restart of the turn: what its last life streamed and did not finish comes again.
    if (!frame.replay) turn.dropUnfinished();
  },

  delta(chat, frame) {
    const turn = open(chat, frame);
    if (!turn) return;
    turn.stopThinking();
    const segment = turn.segment(String(frame.stream_id));
    if (frame.replay) segment.replace(frame.text);
    else segment.append(frame.text);
  },

  stream_end(chat, frame) {
    const turn = open(chat, frame, Boolean(frame.message_id));
    if (!turn) return;
    const id = String(frame.stream_id);
    if (frame.reset) {
      turn.drop(id);
      return;
    }
    if (frame.message_id && turn.final === frame.message_id) return;
    turn.segment(id).finish(frame.text);
    if (frame.message_id) settle(turn, frame);
  },

  message(chat, frame) {
    const id = String(frame.message_id ?? "");
    for (const item of chat.items.values()) if (item instanceof Turn && id && item.final === id) return;
    const own = frame.turn_id && (chat.turnItem(String(frame.turn_id)) || chat.find(String(frame.turn_id)));
    const turn = own ? open(chat, frame, true) : standalone(chat, frame, id);
    if (!turn) return;
    turn.dropUnfinished();
    const segment = turn.segment(id || `message:${frame.seq}`);
    segment.finish(String(frame.text ?? ""));
    settle(turn, frame);
    if (!own) turn.close(frame.kind === "error" ? "failed" : "done");
  },

  reasoning_delta(chat, frame) {
    open(chat, frame)?.think(String(frame.stream_id), frame.text, Boolean(frame.replay));
  },

  reasoning_end(chat, frame) {
    chat.turnItem(String(frame.turn_id))?.stopThinking(String(frame.stream_id));
  },

  tool_event(chat, frame) {
    const turn = open(chat, frame);
    if (!turn) return;
    turn.stopThinking();
    const step = { id: String(frame.call_id), name: oneLine(frame.name) };
    const given = frame.arguments === undefined ? {} : { label: argumentLabel(frame.arguments), detail: detailOf(frame.arguments) };
    if (frame.phase === "start") turn.step({ ...step, ...given, status: "running" });
    else if (frame.phase === "progress") turn.step({ ...step, ...given, text: String(frame.text ?? "") });
    else {
      const failed = frame.phase === "error";
      const text = String((failed ? frame.error : frame.result) ?? "");
      turn.step({ ...step, ...given, status: failed ? "failed" : "done", text, seconds: frame.seconds ?? null });
    }
  },

  steered(chat, frame) {
    const turn = chat.turnItem(String(frame.turn_id));
    const last = chat.find(String((frame.answers ?? []).at(-1)));
    stage(chat, frame.answers ?? [], "working");
    if (!turn || !last) return;
    const next = new Turn(articleId(turn.turn, String(frame.answers.at(-1))), turn.turn);
    if (chat.items.has(next.id)) return;
    next.startedAt = turn.startedAt;
    turn.dropUnfinished();
    turn.close("split");
    if (!turn.segments.value.length && !turn.steps.value.length) chat.remove(turn.id);
    chat.add(next, last.id);
  },

  notice(chat, frame) {
    const turn = frame.turn_id ? open(chat, frame) : null;
    turn?.step({ id: `notice:${frame.seq}`, kind: "notice", label: oneLine(frame.text), status: "done" });
  },

  goal_state(chat, frame) {
    chat.goal.value = frame.goal_state ?? frame.goal ?? null;
  },

  turn_end(chat, frame) {
    if (frame.goal_state !== undefined) chat.goal.value = frame.goal_state;
    const turn = chat.turnItem(String(frame.turn_id));
    chat.runs(String(frame.turn_id), false);
    stage(chat, frame.answers ?? [frame.turn_id], frame.status === "completed" ? "done" : frame.status);
    if (!turn) return;
    if (frame.usage?.total) turn.usage.value = frame.usage;
    turn.seconds.value = (frame.latency_ms ?? 0) / 1000 || turn.seconds.value;
    turn.close(frame.status === "stopped" ? "stopped" : frame.status === "failed" ? "failed" : "done");
  },
};

/**
 * The article a frame of a turn goes to, made where there is none. What is over stays as it is, except that its
 * answer may still come.
 * @param {Chat} chat @param {any} frame @param {boolean} [late]
 */
function open(chat, frame, late = false) {
  const id = String(frame.turn_id ?? "");
  const known = chat.turnItem(id);
  if (known) return known.status.value === "working" || (late && !known.final) ? known : null;
  const answers = (frame.answers ?? [id]).map((/** @type {string} */ one) => chat.find(String(one))).filter(Boolean);
  const turn = new Turn(articleId(id, id), id);
  turn.startedAt = Date.now() / 1000;
  chat.add(turn, answers.at(-1)?.id);
  if (!late) chat.runs(id, true);
  return turn;
}

/** @param {Chat} chat @param {string[]} ids @param {any} to */
function stage(chat, ids, to) {
  for (const id of ids) {
    const said = chat.find(String(id));
    if (said instanceof UserMessage) said.stage.value = to;
  }
}

/** A message that no turn of this thread gave. @param {Chat} chat @param {any} frame @param {string} id */
function standalone(chat, frame, id) {
  const turn = new Turn(`message:${id || frame.seq}`, String(frame.turn_id ?? id));
  chat.add(turn);
  return turn;
}

/** @param {Turn} turn @param {any} frame */
function settle(turn, frame) {
  turn.final = String(frame.message_id ?? "");
  if (frame.media?.length) turn.media = frame.media;
  if (frame.kind === "error") turn.status.value = "failed";
}
