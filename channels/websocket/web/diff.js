/** What a tool did to a file, as lines that went and lines that came. */

const MOST = 400; // lines shown

/** A text that ends with a line end has no empty line after it. @param {string} text */
const linesOf = (text) => text.replace(/\n$/, "").split("\n");

/**
 * @param {{name: string, detail: string}} step its arguments as JSON text
 * @returns {{added: number, removed: number, lines: [string, string][]} | null}
 */
export function changeOf({ name, detail }) {
  if (!/^(?:edit|write)_file$/.test(name) || !detail) return null;
  let given;
  try {
    given = JSON.parse(detail);
  } catch {
    return null;
  }
  const before = typeof given.old_text === "string" ? linesOf(given.old_text) : [];
  const after = linesOf(String(given.new_text ?? given.content ?? ""));
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < before.length - head && tail < after.length - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;
  const gone = before.slice(head, before.length - tail);
  const come = after.slice(head, after.length - tail);
  /** @type {[string, string][]} */
  const lines = [];
  for (const text of before.slice(Math.max(0, head - 2), head)) lines.push([" ", text]);
  for (const text of gone) lines.push(["-", text]);
  for (const text of come) lines.push(["+", text]);
  for (const text of before.slice(before.length - tail, before.length - tail + 2)) lines.push([" ", text]);
  return { added: come.length, removed: gone.length, lines: lines.slice(0, MOST) };
}
