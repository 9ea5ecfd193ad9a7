/** What a thread is made of: what the user said, and the turns that answer it. One signal per thing that changes. */
import { signal } from "./h.js";
import { LiveLexer, lex } from "./md.js";
import { drawSoon } from "./flush.js";
import { oneLine } from "./links.js";

/** @typedef {{id: string, name: string, mime: string, url?: string}} Media */

export class UserMessage {
  kind = "user";

  /**
   * @param {string} id the inbox id, or the client's own until there is one
   * @param {string} text
   * @param {{time?: number, media?: Media[], status?: "waiting" | "accepted" | "failed"}} more
   */
  constructor(id, text, { time = Date.now(), media = [], status = "accepted" } = {}) {
    this.id = id;
    this.text = text;
    this.time = time;
    this.media = media;
    /** The message's own state: only "accepted" means that the server has it on disk. */
    this.status = signal(status);
    this.error = signal("");
    /** What became of it once it was accepted. @type {import("./vendor/signals-core.js").Signal<"" | "queued" | "working" | "done" | "stopped" | "failed">} */
    this.stage = signal("");
  }
}

/** One model call's text. */
export class Segment {
  /** @param {string} id its stream's id */
  constructor(id) {
    this.id = id;
    this.done = false;
    this.live = new LiveLexer();
    /** @type {import("./vendor/signals-core.js").Signal<{tokens: import("./md.js").Token[], live: boolean}>} */
    this.view = signal({ tokens: [], live: true });
    this.draw = () => {
      if (!this.done) this.view.value = { tokens: this.live.preview(), live: true };
    };
  }

  get text() {
    return this.live.text;
  }

  /** @param {string} more */
  append(more) {
    if (this.done) return;
    this.live.push(more);
    drawSoon(this.draw);
  }

  /** Take the whole text, instead of what was there. @param {string} text */
  replace(text) {
    this.live = new LiveLexer();
    this.live.push(text);
    drawSoon(this.draw);
  }

  /** @param {string} [text] the server's own, where it sent one */
  finish(text) {
    if (text !== undefined && text !== this.live.text) {
      this.live = new LiveLexer();
      this.live.push(text);
    }
    this.done = true;
    this.view.value = { tokens: this.live.finish(), live: false };
  }
}

/** @typedef {{id: string, kind: "tool" | "reasoning" | "notice", name: string, label: string, status: "running" | "done" | "failed", text: string, seconds: number | null, detail: string}} Step */

/** An agent's answer: steps and texts, in the order they came. */
export class Turn {
  kind = "turn";

  /** @param {string} id @param {string} turn the server's id; a steered turn has several articles */
  constructor(id, turn) {
    this.id = id;
    this.turn = turn;
    this.time = Date.now();
    /** Seconds since the epoch, while it runs. */
    this.startedAt = 0;
    /** @type {import("./vendor/signals-core.js").Signal<"working" | "done" | "stopped" | "failed" | "split">} */
    this.status = signal("working");
    /** @type {import("./vendor/signals-core.js").Signal<Segment[]>} */
    this.segments = signal([]);
    /** How many texts stand above the activity line, which is where its first step happened. */
    this.stepsAt = signal(-1);
    /** @type {import("./vendor/signals-core.js").Signal<Step[]>} */
    this.steps = signal([]);
    this.seconds = signal(0);
    this.open = signal(false);
    /** Tokens, as the provider counted them. @type {import("./vendor/signals-core.js").Signal<{input: number, output: number} | null>} */
    this.usage = signal(null);
    this.final = ""; // the message id of its answer, once that is committed
    /** @type {Media[]} */
    this.media = [];
    /** @type {(() => void) | undefined} */
    this.drawThoughts = undefined;
    /** @type {Map<string, string>} reasoning that waits for the next frame */
    this.thoughts = new Map();
  }

  get text() {
    return this.segments.value.map((segment) => segment.text).join("\n\n");
  }

  /** @param {string} id */
  segment(id) {
    let found = this.segments.value.find((segment) => segment.id === id);
    if (!found) {
      found = new Segment(id);
      // What was streamed before and never ended belongs to an attempt that was interrupted.
      this.segments.value = [...this.segments.value.filter((segment) => segment.done), found];
    }
    return found;
  }

  /** @param {string} id */
  drop(id) {
    this.segments.value = this.segments.value.filter((segment) => segment.id !== id);
  }

  dropUnfinished() {
    if (this.segments.value.some((segment) => !segment.done)) {
      this.segments.value = this.segments.value.filter((segment) => segment.done);
    }
  }

  /** Add a step or change the one with its id. @param {Partial<Step> & {id: string}} step */
  step(step) {
    const steps = this.steps.value;
    const at = steps.findIndex((known) => known.id === step.id);
    if (at >= 0) {
      this.steps.value = steps.with(at, { ...steps[at], ...step });
      return;
    }
    if (this.stepsAt.value < 0) this.stepsAt.value = this.segments.value.length;
    const fresh = { kind: "tool", name: "", label: "", status: "running", text: "", seconds: null, detail: "", ...step };
    this.steps.value = [...steps, /** @type {Step} */ (fresh)];
  }

  /** @param {string} stream @param {string} text @param {boolean} whole */
  think(stream, text, whole) {
    const id = `think:${stream}`;
    const known = this.thoughts.get(id) ?? this.steps.value.find((step) => step.id === id)?.text ?? "";
    this.thoughts.set(id, whole ? text : known + text);
    if (!this.steps.value.some((step) => step.id === id)) this.step({ id, kind: "reasoning", label: "Thinking" });
    drawSoon((this.drawThoughts ??= () => {
      for (const [key, value] of this.thoughts) this.step({ id: key, text: value });
      this.thoughts.clear();
    }));
  }

  /** @param {string} [stream] */
  stopThinking(stream) {
    for (const step of this.steps.value) {
      const mine = step.kind === "reasoning" && step.status === "running" && (!stream || step.id === `think:${stream}`);
      if (mine) this.step({ id: step.id, status: "done", text: this.thoughts.get(step.id) ?? step.text });
    }
  }

  /** Take over what the history says of this article, keeping every text that is already on the screen. @param {Turn} other */
  adopt(other) {
    const mine = this.segments.value;
    const next = other.segments.value.map((segment, at) => {
      const same = mine[at]?.text === segment.text ? mine[at] : mine.find((known) => known.text === segment.text);
      if (!same) return segment;
      if (!same.done) same.finish();
      return same;
    });
    if (next.length !== mine.length || next.some((segment, at) => segment !== mine[at])) this.segments.value = next;
    if (other.steps.value.length >= this.steps.value.length || other.status.value === "working") {
      this.steps.value = other.steps.value;
      this.stepsAt.value = other.stepsAt.value;
    }
    this.thoughts.clear();
    this.final = other.final || this.final;
    this.seconds.value = other.seconds.value || this.seconds.value;
    this.usage.value = other.usage.value ?? this.usage.value;
    this.time = other.time;
    this.status.value = other.status.value;
  }

  /** No text and no step goes on any more. @param {"done" | "stopped" | "failed" | "split"} status */
  close(status) {
    this.stopThinking();
    for (const segment of this.segments.value) if (!segment.done) segment.finish();
    for (const step of this.steps.value) {
      if (step.status === "running") this.step({ id: step.id, status: status === "stopped" ? "failed" : "done", text: step.text || (status === "stopped" ? "stopped" : "") });
    }
    this.status.value = status;
  }
}

/** A few words for a tool's arguments: the command, the path, the question. @param {unknown} given */
export function argumentLabel(given) {
  let values = given;
  if (typeof given === "string") {
    try {
      values = JSON.parse(given);
    } catch {
      return oneLine(given).slice(0, 200);
    }
  }
  if (!values || typeof values !== "object") return "";
  const named = /** @type {Record<string, unknown>} */ (values);
  for (const key of ["command", "cmd", "path", "file", "url", "query", "pattern", "task", "message", "question", "text"]) {
    if (typeof named[key] === "string" && named[key]) return oneLine(named[key]).slice(0, 200);
  }
  const first = Object.values(named).find((value) => typeof value === "string" || typeof value === "number");
  return first === undefined ? "" : oneLine(first).slice(0, 200);
}

/** A finished text, as history has it. @param {string} id @param {string} text */
export function finishedSegment(id, text) {
  const segment = new Segment(id);
  segment.live.text = text.replace(/\r\n?/g, "\n");
  segment.done = true;
  segment.view = signal({ tokens: lex(text), live: false });
  return segment;
}
