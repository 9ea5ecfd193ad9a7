/** What of foreign text may become an address, and how names are made harmless. No DOM here. */

const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g;
const SCHEMES = new Set(["http:", "https:", "mailto:"]);

/** @type {Record<string, string>} */
const NAMED = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", ensp: "\u2002", emsp: "\u2003", thinsp: "\u2009",
  copy: "©", reg: "®", trade: "™", hellip: "…", mdash: "—", ndash: "–", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”",
  laquo: "«", raquo: "»", bull: "•", middot: "·", times: "×", divide: "÷", plusmn: "±", deg: "°", para: "¶", sect: "§",
  euro: "€", pound: "£", yen: "¥", cent: "¢", micro: "µ", larr: "←", rarr: "→", uarr: "↑", darr: "↓", harr: "↔",
  rArr: "⇒", hArr: "⇔", le: "≤", ge: "≥", ne: "≠", asymp: "≈", infin: "∞", check: "✓", star: "☆",
  frac12: "½", frac14: "¼", frac34: "¾", sup2: "²", sup3: "³", alpha: "α", beta: "β", gamma: "γ", delta: "δ",
  lambda: "λ", mu: "μ", pi: "π", sigma: "σ", omega: "ω", Delta: "Δ", Sigma: "Σ", Omega: "Ω", sum: "∑", radic: "√",
  colon: ":", Tab: "\t", NewLine: "\n", lpar: "(", rpar: ")", sol: "/", bsol: "\\", num: "#", excl: "!", shy: "",
};

/**
 * Decode HTML's character references; an unknown one stays as it is written.
 * @param {string} text
 */
export function unescapeEntities(text) {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|(\w{1,12}));/g, (whole, decimal, hex, name) => {
    if (name) return Object.hasOwn(NAMED, name) ? NAMED[name] : whole;
    const code = decimal ? Number(decimal) : parseInt(hex, 16);
    return code === 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? "\ufffd" : String.fromCodePoint(code);
  });
}

/**
 * Remove the characters that reorder what stands around them: `evil\u202Egpj.exe` must not read as a picture.
 * @param {string} text
 */
export function cleanBidi(text) {
  return text.replace(BIDI, "");
}

/**
 * One line for a title, a file name or a tool's name.
 * @param {unknown} text
 */
export function oneLine(text) {
  return cleanBidi(String(text ?? "")).replace(/\s+/g, " ").replace(CONTROL, "").trim();
}

/**
 * The address to link to, or "" where linking would be unsafe.
 * @param {string} href as written, entities included
 */
export function safeHref(href) {
  const text = unescapeEntities(String(href ?? "")).replace(BIDI, "").replace(CONTROL, "").trim();
  if (!text) return "";
  let url;
  try {
    url = new URL(text, document.baseURI);
  } catch {
    return "";
  }
  return SCHEMES.has(url.protocol) ? url.href : "";
}

/**
 * Where an image may be loaded from: this server or the message itself, never elsewhere.
 * @param {string} href
 */
export function isLocalImage(href) {
  const text = unescapeEntities(String(href ?? "")).trim();
  if (/^data:image\/(?:png|jpeg|gif|webp);base64,/i.test(text) || text.startsWith("blob:")) return true;
  try {
    const url = new URL(text, document.baseURI);
    return url.origin === location.origin && url.pathname.includes("/api/media/");
  } catch {
    return false;
  }
}

/** @param {string} href */
export function hostOf(href) {
  try {
    return new URL(href).host;
  } catch {
    return "";
  }
}
