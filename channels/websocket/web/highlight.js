/** Colours for code. Loaded when the first block with a known language is there. */
import hljs from "./vendor/hljs/core.js";

const LANGUAGES = new Set(
  ("bash c cpp csharp css diff dockerfile elixir go graphql haskell http ini java javascript json kotlin latex lua " +
    "makefile markdown nginx perl php powershell protobuf python r ruby rust scala shell sql swift typescript xml yaml").split(" "),
);
const ALIASES = new Map(
  Object.entries({
    sh: "bash", zsh: "bash", "c++": "cpp", cc: "cpp", h: "c", hpp: "cpp", cs: "csharp", "c#": "csharp", patch: "diff", docker: "dockerfile",
    ex: "elixir", golang: "go", gql: "graphql", hs: "haskell", toml: "ini", cfg: "ini", conf: "ini", js: "javascript", jsx: "javascript",
    mjs: "javascript", cjs: "javascript", jsonc: "json", json5: "json", kt: "kotlin", tex: "latex", make: "makefile", md: "markdown", pl: "perl",
    ps1: "powershell", pwsh: "powershell", proto: "protobuf", py: "python", python3: "python", rb: "ruby", rs: "rust", console: "shell",
    shellsession: "shell", sqlite: "sql", postgresql: "sql", ts: "typescript", tsx: "typescript", html: "xml", svg: "xml", vue: "xml", yml: "yaml",
  }),
);

/** @type {any} the tree that the last run built; hljs itself would only give an HTML string */
let tree = null;

/** Collects what the highlighter finds; `toHTML` is never asked for markup. */
class Tree {
  constructor() {
    /** @type {{children: any[]}} */
    this.root = { children: [] };
    this.stack = [this.root];
    tree = this;
  }
  get top() {
    return this.stack[this.stack.length - 1];
  }
  addText(/** @type {string} */ text) {
    if (text) this.top.children.push(text);
  }
  openNode(/** @type {string} */ scope) {
    const node = { scope, children: [] };
    this.top.children.push(node);
    this.stack.push(node);
  }
  closeNode() {
    if (this.stack.length > 1) this.stack.pop();
  }
  startScope(/** @type {string} */ scope) {
    this.openNode(scope);
  }
  endScope() {
    this.closeNode();
  }
  __addSublanguage(/** @type {Tree} */ other) {
    this.top.children.push(...other.root.children);
  }
  closeAllNodes() {
    this.stack.length = 1;
  }
  finalize() {
    this.closeAllNodes();
    return true;
  }
  toHTML() {
    tree = this;
    return "";
  }
}
hljs.configure({ __emitter: /** @type {any} */ (Tree), languages: [] });

/** @param {any} node @returns {Node} */
function element(node) {
  if (typeof node === "string") return document.createTextNode(node);
  const span = document.createElement("span");
  span.className = `c-${String(node.scope).split(".")[0].replace(/[^\w-]/g, "")}`;
  span.append(...node.children.map(element));
  return span;
}

/** The language's name here, or "". @param {string} info a fence's first line */
export function languageOf(info) {
  const word = info.trim().split(/[\s,{]/)[0].toLowerCase();
  const name = ALIASES.get(word) ?? word;
  return LANGUAGES.has(name) ? name : "";
}

/** @param {string} name @returns {Promise<boolean>} */
export async function load(name) {
  if (hljs.getLanguage(name)) return true;
  try {
    const module = await import(`./vendor/hljs/${name}.js`);
    hljs.registerLanguage(name, module.default);
    return true;
  } catch {
    return false;
  }
}

/** @param {string} text @param {string} language @returns {Node[]} */
export function colour(text, language) {
  try {
    hljs.highlight(text, { language, ignoreIllegals: true });
    return tree.root.children.map(element);
  } catch {
    return [document.createTextNode(text)];
  }
}
