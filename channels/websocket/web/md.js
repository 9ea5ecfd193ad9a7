/**
 * Markdown to tokens, live: what can no longer change is frozen, only the tail is read again.
 *
 * A top-level token is frozen when it is not the last one and a blank line ends it (so that no later line can join
 * it), judged on complete lines only. Link definitions change text that stands before them: a document that has one
 * is read whole each time, which is rare and stays correct.
 */
import { Lexer, getDefaults } from "./vendor/marked.js";

/** @typedef {{type: string, raw: string, text?: string, tokens?: Token[], [more: string]: any}} Token */

const BLOCK_MATH = /^ {0,3}(?:\$\$((?:(?!\n[ \t]*(?:\n|$))[^])+?)\$\$|\\\[((?:(?!\n[ \t]*(?:\n|$))[^])+?)\\\])[ \t]*(?:\n|$)/;
const BLOCK_START = /(?:^|\n)( {0,3}(?:\$\$|\\\[))/g;
const INLINE_MATH = /^(?:\$\$([^$\n]+?)\$\$|\$(?![\s$])((?:\\.|[^\\$\n])+?)(?<!\s)\$(?![\d$])|\\\(((?:(?!\n\s*\n)[^])+?)\\\))/;

const blockMath = {
  /** @param {string} src */
  start(src) {
    if (!src.includes("$$") && !src.includes("\\[")) return undefined;
    for (const found of src.matchAll(BLOCK_START)) {
      const at = found.index + (found[0].length - found[1].length);
      if (BLOCK_MATH.test(src.slice(at))) return at;
    }
    return undefined;
  },
  /** @param {string} src */
  tokenizer(src) {
    const match = BLOCK_MATH.exec(src);
    return match ? { type: "blockMath", raw: match[0], text: (match[1] ?? match[2]).trim() } : undefined;
  },
};

const inlineMath = {
  /** @param {string} src */
  start(src) {
    const at = src.search(/\$|\\\(/);
    return at < 0 ? undefined : at;
  },
  /** @param {string} src */
  tokenizer(src) {
    const match = INLINE_MATH.exec(src);
    if (!match) return undefined;
    return { type: "inlineMath", raw: match[0], text: (match[1] ?? match[2] ?? match[3]).trim(), display: match[1] !== undefined };
  },
};

const OPTIONS = {
  ...getDefaults(),
  breaks: true, // a line's end is one here as in every other chat; a command's answer is made of lines
  extensions: { block: [blockMath.tokenizer], startBlock: [blockMath.start], inline: [inlineMath.tokenizer], startInline: [inlineMath.start] },
};
/** @param {string} text */
const lexed = (text) => new Lexer(OPTIONS).lex(text);

/**
 * Read a whole document.
 * @param {string} text
 * @returns {Token[]}
 */
export function lex(text) {
  return [...lexed(text)];
}

/** Tokens, and whether they define link references. */
function read(/** @type {string} */ text) {
  const tokens = lexed(text);
  return { tokens: [...tokens], defines: Object.keys(tokens.links).length > 0 };
}

const normal = (/** @type {string} */ text) => text.replace(/\r\n?/g, "\n");
const lastBlankLine = (/** @type {string} */ text) => {
  let at = -1;
  for (const found of text.matchAll(/\n[ \t]*(?=\n)/g)) at = found.index + 1;
  return at;
};

export class LiveLexer {
  constructor() {
    /** @type {Token[]} */
    this.frozen = [];
    this.text = "";
    this.settled = 0; // characters of `text` that the frozen tokens cover
    this.whole = false; // a link definition was seen
    this.held = ""; // a carriage return that may be half of a line end
  }

  /** @param {string} more */
  push(more) {
    let text = this.held + more;
    this.held = "";
    if (text.endsWith("\r")) {
      this.held = "\r";
      text = text.slice(0, -1);
    }
    this.text += normal(text);
    if (!this.whole) this.#freeze();
  }

  #freeze() {
    const end = this.text.lastIndexOf("\n") + 1;
    if (end <= this.settled) return;
    const tail = this.text.slice(this.settled, end);
    const blank = lastBlankLine(tail);
    if (blank < 0) return;
    const { tokens, defines } = read(tail);
    if (defines) {
      this.whole = true;
      this.frozen = [];
      this.settled = 0;
      return;
    }
    let last = tokens.length - 1;
    while (last >= 0 && tokens[last].type === "space") last--;
    let at = 0;
    let count = 0;
    let covered = 0;
    for (let i = 0; i < last; i++) {
      at += tokens[i].raw.length;
      if (at > blank + 1) break;
      if (tokens[i].type !== "space" || tokens[i + 1].type !== "space") {
        count = i + 1;
        covered = at;
      }
    }
    if (!count) return;
    this.frozen = [...this.frozen, ...tokens.slice(0, count)];
    this.settled += covered;
  }

  /** The tokens of what was pushed so far, exactly as `lex` of the whole text gives them. */
  tokens() {
    return this.#with(this.text.slice(this.settled));
  }

  /** The same, with the tail mended for display. */
  preview() {
    return this.#with(mend(this.text.slice(this.settled)));
  }

  /** @param {string} tail */
  #with(tail) {
    const { tokens, defines } = read(tail);
    if (!defines || !this.settled) return [...this.frozen, ...tokens];
    return lex(this.text.slice(0, this.settled) + tail);
  }

  /** Read the whole once more: what every reader of the finished text sees. */
  finish() {
    this.text += this.held ? "\n" : "";
    this.held = "";
    return lex(this.text);
  }
}

/**
 * Make half-written markdown readable without a flip when its other half arrives: close emphasis and code, hide half
 * links, maths and bare markers, and hold back lines that would change the paragraph above them.
 * @param {string} tail
 */
export function mend(tail) {
  const fence = openFence(tail);
  if (fence) {
    const line = tail.slice(tail.lastIndexOf("\n") + 1);
    // The first characters of a closing fence are not code; the first line of an open one names its language.
    const closing = line.trim() && fence.startsWith(line.trim()) && tail.includes("\n");
    return closing ? tail.slice(0, -line.length) : tail;
  }
  let text = tail;
  const from = text.lastIndexOf("\n") + 1;
  const line = text.slice(from);
  // A table's row, a bare list marker, a rule or setext underline, a lone fence: wait for the rest of the line.
  const waits = /^ {0,3}\|/.test(line) || /^\s*(?:[-+*]|\d{1,9}[.)]?|#{1,6}|>|[-=*_ ]+|`{1,3}|~{1,3})\s*$/.test(line);
  if (waits) text = text.slice(0, from);
  // A table is drawn when its first row is there: that row and the header say how wide the columns are.
  const begun = /(?:^|\n)( {0,3}\|[^\n]*\n {0,3}\|[ \t]*:?-[-:| \t]*\n?)$/.exec(text);
  if (begun) text = text.slice(0, text.length - begun[1].length);
  const header = /(?:^|\n)( {0,3}\|[^\n]*\n)$/.exec(text);
  if (header) {
    const above = text.slice(0, text.length - header[1].length);
    if (!/(?:^|\n) {0,3}\|[^\n]*\n$/.test(above)) text = above;
  }
  const start = lastParagraph(text);
  const paragraph = text.slice(start);
  const formula = openFormula(paragraph);
  if (formula >= 0) return text.slice(0, start) + paragraph.slice(0, formula);
  return text.slice(0, start) + closed(paragraph);
}

/** Where a displayed formula begins that has no end yet, or -1. @param {string} paragraph */
function openFormula(paragraph) {
  let open = -1;
  let closer = "";
  for (const { 0: mark, index } of paragraph.matchAll(/\$\$|\\\[|\\\]/g)) {
    if (open >= 0) {
      if (mark === closer) open = -1;
    } else if (mark !== "\\]" && /(?:^|\n) {0,3}$/.test(paragraph.slice(0, index))) {
      open = index;
      closer = mark === "$$" ? "$$" : "\\]";
    }
  }
  return open;
}

/** Where the last paragraph begins. @param {string} text */
function lastParagraph(text) {
  let at = 0;
  for (const found of text.matchAll(/\n[ \t]*\n/g)) at = found.index + found[0].length;
  return at;
}

/**
 * The marker of a fence that is still open at the end, or "".
 * @param {string} text
 */
export function openFence(text) {
  let open = "";
  for (const found of text.matchAll(/^[ \t]*(?:(?:[-+*]|\d{1,9}[.)]|>)[ \t]+)*(`{3,}|~{3,})([^\n]*)$/gm)) {
    const [, marker, rest] = found;
    if (!open) {
      if (marker[0] === "~" || !rest.includes("`")) open = marker;
    } else if (marker[0] === open[0] && marker.length >= open.length && !rest.trim()) open = "";
  }
  return open;
}

const EMPHASIS =
  /(?<![\w*])(\*{1,3})(?=[^\s*])|(?<=[^\s*])(\*{1,3})(?!\*)|(~~)|(?<!\w)(_{1,2})(?=[^\s_])|(?<=[^\s_])(_{1,2})(?!\w)/g;

/**
 * A paragraph with its open inline markup closed, or hidden where it says nothing yet.
 * @param {string} text
 * @returns {string}
 */
function closed(text) {
  const blank = (/** @type {string} */ found) => " ".repeat(found.length);
  const bare = text.replace(/\\[^]/g, "  ").replace(/(`+)(?!`)[^]*?[^`]\1(?!`)/g, blank);
  const tick = /(`+)([^`]*)$/.exec(bare);
  if (tick) return tick[2].trim() ? text.trimEnd() + tick[1] : closed(text.slice(0, tick.index));
  const link = /!?\[[^\]\n]*(?:\](?:\([^)\n]*)?)?$/.exec(bare);
  if (link && !/^\[[ x]\]$/i.test(link[0])) {
    const before = text.slice(0, link.index);
    const label = /^\[([^\]]*)/.exec(text.slice(link.index));
    return closed(label ? before + label[1] : before);
  }
  const maths = /(?<![\w$])\$(?=[^\s$\d])[^$\n]*$/.exec(bare.replace(/\$[^$\n]+\$/g, blank));
  if (maths) return closed(text.slice(0, maths.index));
  const dangling = /(?:\*{1,3}|~{1,2}|_{1,2})$/.exec(bare);
  const kept = dangling ? text.slice(0, dangling.index) : text;
  /** @type {string[]} */
  const open = [];
  for (const found of bare.slice(0, kept.length).matchAll(EMPHASIS)) {
    const mark = found[1] ?? found[2] ?? found[3] ?? found[4] ?? found[5];
    if (open[open.length - 1] === mark && !found[1] && !found[4]) open.pop();
    else if (found[1] || found[4] || found[3]) open.push(mark);
  }
  return open.length ? kept.trimEnd() + open.reverse().join("") : kept;
}
