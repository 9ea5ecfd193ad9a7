/** Code blocks: a text node that only grows while they are written, coloured in pieces that never change again. */
import { html, Component } from "./h.js";
import { announce } from "./a11y.js";
import { whenIdle } from "./idle.js";
import { icon } from "./icons.js";
import { oneLine } from "./links.js";
import { problem } from "./store.js";

const LIMIT = 60_000; // characters; above it code stays plain
const EVERY = 90; // milliseconds between two colourings of code that is being written

/**
 * What colours a fence's language, or null where nothing does.
 * @param {string} info the fence's first line
 * @returns {Promise<((text: string) => Node[]) | null>}
 */
async function colours(info) {
  try {
    const { colour, languageOf, load } = await import("./highlight.js");
    const language = languageOf(info);
    return language && (await load(language)) ? (text) => colour(text, language) : null;
  } catch {
    return null; // offline: code stays plain
  }
}

/** Where code may be cut so that both pieces colour alike: after a blank line, before a line at column 0. */
function cutOf(/** @type {string} */ text) {
  for (let at = text.lastIndexOf("\n\n"); at > 0; at = text.lastIndexOf("\n\n", at - 1)) {
    if (/[A-Za-z@#]/.test(text[at + 2] ?? "")) return at + 2;
  }
  return 0;
}

/** Props: text, lang (the fence's first line), open (still being written). */
export class CodeBlock extends Component {
  constructor() {
    super();
    /** @type {HTMLElement | null} */
    this.code = null;
    this.settled = 0; // characters whose colours stay
    this.nodes = 0; // the elements that hold them
    this.shown = ""; // what the element holds
    this.timer = 0;
    this.forget = () => {};
    this.state = { copied: false };
  }

  componentDidMount() {
    this.paint();
  }

  componentDidUpdate() {
    this.paint();
  }

  componentWillUnmount() {
    clearTimeout(this.timer);
    this.forget();
    this.gone = true;
  }

  paint() {
    const { text, open } = this.props;
    if (!this.code) return;
    if (text !== this.shown) {
      if (this.shown && text.startsWith(this.shown)) this.code.append(text.slice(this.shown.length));
      else {
        this.code.textContent = text;
        this.settled = 0;
        this.nodes = 0;
      }
      this.shown = text;
      this.whole = false;
    } else if (open || this.whole) return;
    if (!this.props.lang.trim() || text.length > LIMIT) return;
    if (open) {
      if (!this.timer) this.timer = setTimeout(() => this.step(), EVERY);
      return;
    }
    clearTimeout(this.timer);
    this.timer = 0;
    this.forget();
    this.forget = whenIdle(() => this.finish(), this.code);
  }

  /** Colour what is still loose, and settle the part that has ended. */
  async step() {
    const colour = await colours(this.props.lang);
    this.timer = 0;
    if (!colour || !this.code || this.gone || !this.props.open) return;
    const loose = this.shown.slice(this.settled);
    const cut = cutOf(loose);
    while (this.code.childNodes.length > this.nodes) this.code.lastChild?.remove();
    if (cut) {
      this.code.append(...colour(loose.slice(0, cut)));
      this.settled += cut;
    }
    this.nodes = this.code.childNodes.length;
    this.code.append(...colour(loose.slice(cut)));
  }

  async finish() {
    const colour = await colours(this.props.lang);
    if (!colour || !this.code || this.gone || this.props.open) return;
    this.code.replaceChildren(...colour(this.shown));
    this.whole = true;
  }

  copy = async () => {
    if (!(await copyText(this.props.text))) return;
    this.setState({ copied: true });
    setTimeout(() => !this.gone && this.setState({ copied: false }), 1600);
  };

  /** @param {any} props @param {{copied: boolean}} state */
  render({ lang }, { copied }) {
    const name = oneLine(lang.trim().split(/[\s,{]/)[0]).slice(0, 32);
    return html`<div class="code">
      <div class="code-head">
        <span>${name || "text"}</span>
        <button type="button" class="quiet" onClick=${this.copy} aria-label=${copied ? "Copied" : "Copy code"}>
          ${icon(copied ? "check" : "copy")}<span>${copied ? "Copied" : "Copy"}</span>
        </button>
      </div>
      <pre tabindex="0" role="region" aria-label=${name ? `Code, ${name}` : "Code"}><code ref=${(/** @type {any} */ node) => (this.code = node)}></code></pre>
    </div>`;
  }
}

/** @param {string} text @returns {Promise<boolean>} whether it is on the clipboard */
export async function copyText(text) {
  let copied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a secure context there is no clipboard interface; the old way still works, and takes the focus.
    const back = /** @type {HTMLElement | null} */ (document.activeElement);
    const area = document.createElement("textarea");
    area.className = "unseen";
    area.value = text;
    document.body.append(area);
    area.select();
    copied = document.execCommand("copy");
    area.remove();
    back?.focus({ preventScroll: true });
  }
  if (copied) announce("Copied");
  else problem.value = "The browser does not let this page copy.";
  return copied;
}
