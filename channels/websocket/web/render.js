/** Tokens to virtual nodes. No HTML string exists anywhere: raw HTML in a message is shown as text. */
import { html, Component } from "./h.js";
import { cleanBidi, hostOf, isLocalImage, safeHref, unescapeEntities } from "./links.js";
import { CodeBlock } from "./code.js";
import { Maths } from "./maths.js";

/** @typedef {import("./md.js").Token} Token */

const SMALL = /^<(br|\/?(?:sub|sup|kbd|b|i|em|strong|u|s|mark|small))\s*\/?>$/i;

/** @param {Token[] | undefined} tokens @returns {any} */
function inline(tokens) {
  return tokens?.map(one) ?? null;
}

/** @param {Token} token @returns {any} */
function one(token) {
  switch (token.type) {
    case "text":
    case "escape":
      return token.tokens ? inline(token.tokens) : cleanBidi(unescapeEntities(token.text ?? ""));
    case "strong":
      return html`<strong>${inline(token.tokens)}</strong>`;
    case "em":
      return html`<em>${inline(token.tokens)}</em>`;
    case "del":
      return html`<del>${inline(token.tokens)}</del>`;
    case "codespan":
      return html`<code>${token.text}</code>`;
    case "br":
      return html`<br />`;
    case "link":
      return link(token);
    case "image":
      return image(token);
    case "inlineMath":
      return html`<${Maths} source=${token.text} display=${token.display} />`;
    case "html":
      // A model writes <br> in table cells; every other tag is text.
      return /^<br\s*\/?>$/i.test(token.raw) ? html`<br />` : SMALL.test(token.raw) ? null : token.raw;
    default:
      return token.raw;
  }
}

/** @param {Token} token */
function link(token) {
  const href = safeHref(token.href);
  if (!href) return inline(token.tokens);
  const outside = hostOf(href) !== location.host || href.startsWith("mailto:");
  return html`<a href=${href} target=${outside ? "_blank" : undefined} rel="noopener noreferrer nofollow" title=${href}
    >${inline(token.tokens)}</a
  >`;
}

/** A remote image would tell its server what was said; the reader decides. @param {Token} token */
function image(token) {
  const alt = cleanBidi(unescapeEntities(token.text ?? ""));
  if (isLocalImage(token.href)) return html`<img src=${unescapeEntities(token.href)} alt=${alt} loading="lazy" />`;
  const href = safeHref(token.href);
  if (!href || !hostOf(href)) return alt || token.raw;
  return html`<a class="remote" href=${href} target="_blank" rel="noopener noreferrer nofollow"
    >Image from ${hostOf(href)}${alt ? `: ${alt}` : ""}</a
  >`;
}

/** @param {Token} token */
function list(token) {
  const items = token.items.map(
    (/** @type {Token} */ item) =>
      html`<li class=${item.task ? "task" : undefined}>
        ${item.task ? html`<input type="checkbox" checked=${item.checked} disabled aria-label=${item.checked ? "done" : "open"} />` : null}
        ${item.tokens?.filter((part) => part.type !== "checkbox").map((part) => block(part, !item.loose))}
      </li>`,
  );
  return token.ordered
    ? html`<ol start=${token.start === 1 || token.start === "" ? undefined : token.start}>${items}</ol>`
    : html`<ul>${items}</ul>`;
}

/**
 * Columns as wide as the header and the first row ask for, which a wider place shares out. Later rows do not change
 * them, so that nothing moves while a table is being written.
 * @param {Token} token
 */
function columns(token) {
  const widths = token.header.map((/** @type {any} */ part, /** @type {number} */ at) => {
    const texts = [part.text, token.rows[0]?.[at]?.text ?? ""];
    const longest = Math.max(...texts.map((text) => text.length));
    const word = Math.max(...texts.join(" ").split(/\s/).map((one) => one.length), 5);
    return 30 + Math.max(8 * Math.min(longest, 48) ** 0.8, 10 * Math.min(word, 20));
  });
  return html`<colgroup>${widths.map((/** @type {number} */ width) => html`<col style=${{ width: `${width.toFixed()}px` }} />`)}</colgroup>`;
}

/** @param {Token} token */
function table(token) {
  const cell = (/** @type {any} */ part, /** @type {number} */ column, /** @type {string} */ tag) => {
    const side = token.align[column];
    return html`<${tag} class=${side ? `to-${side}` : undefined} scope=${tag === "th" ? "col" : undefined}>${inline(part.tokens)}<//>`;
  };
  return html`<div class="table" tabindex="0" role="group" aria-label="Table">
    <table>
      ${columns(token)}
      <thead>
        <tr>${token.header.map((/** @type {any} */ part, /** @type {number} */ i) => cell(part, i, "th"))}</tr>
      </thead>
      <tbody>
        ${token.rows.map((/** @type {any[]} */ row) => html`<tr>${row.map((part, i) => cell(part, i, "td"))}</tr>`)}
      </tbody>
    </table>
  </div>`;
}

/**
 * @param {Token} token
 * @param {boolean} [tight] inside a list whose items are lines, not paragraphs
 * @param {boolean} [open] the last block of a text that is still being written
 * @returns {any}
 */
function block(token, tight = false, open = false) {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      // Below the page's own headings, without gaps where a text begins with a lower one.
      return html`<${`h${Math.min(5, Math.max(3, token.depth + 1))}`} class=${`d${token.depth}`}>${inline(token.tokens)}<//>`;
    case "paragraph":
      return html`<p>${inline(token.tokens)}</p>`;
    case "text":
      return tight || !token.tokens ? inline(token.tokens) ?? one(token) : html`<p>${inline(token.tokens)}</p>`;
    case "code":
      return html`<${CodeBlock} text=${token.text} lang=${token.lang ?? ""} open=${open} />`;
    case "blockquote":
      return html`<blockquote>${token.tokens?.map((part) => block(part))}</blockquote>`;
    case "list":
      return list(token);
    case "table":
      return table(token);
    case "hr":
      return html`<hr />`;
    case "blockMath":
      return html`<${Maths} source=${token.text} display=${true} />`;
    case "html":
      return html`<p class="raw">${cleanBidi(token.raw.trimEnd())}</p>`;
    default:
      return html`<p>${token.raw}</p>`;
  }
}

/** A frozen block is drawn once: only another text or the end of its writing draws it again. */
class Block extends Component {
  /** @param {{token: Token, open: boolean}} next */
  shouldComponentUpdate(next) {
    const { token, open } = this.props;
    return next.open !== open || (next.token !== token && (next.token.raw !== token.raw || next.token.type !== token.type || linked(next.token)));
  }

  render() {
    const drawn = block(this.props.token, false, this.props.open);
    // Each block is read in the direction of its own first letter.
    if (drawn?.props) drawn.props.dir = "auto";
    return drawn;
  }
}

/** Whether another part of the document may change how this text reads. @param {Token} token */
const linked = (token) => token.raw.includes("[");

/**
 * A text as blocks; `live` while it is being written.
 * @param {{tokens: Token[], live?: boolean}} props
 */
export function Markdown({ tokens, live = false }) {
  const shown = tokens.filter((token) => token.type !== "space" && token.type !== "def");
  return html`<div class="md">
    ${shown.map((token, at) => html`<${Block} key=${at} token=${token} open=${live && at === shown.length - 1} />`)}
  </div>`;
}
