/** Light, dark, or what the system says. */
import { signal } from "./h.js";

const KEY = "nanobot.theme";
const ORDER = /** @type {const} */ (["system", "light", "dark"]);

/** @typedef {typeof ORDER[number]} Theme */

/** @type {import("./vendor/signals-core.js").Signal<Theme>} */
export const theme = signal(/** @type {Theme} */ (document.documentElement.dataset.theme ?? "system"));

export function nextTheme() {
  const next = ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length];
  theme.value = next;
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // then it holds for this visit
  }
}
