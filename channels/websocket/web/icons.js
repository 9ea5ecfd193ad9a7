/** Line icons on a 20-pixel grid, drawn with the text's colour. */
import { html } from "./h.js";

const PATHS = {
  menu: "M3 6h14M3 10h14M3 14h14",
  plus: "M10 4v12M4 10h12",
  send: "M10 16V4M5 9l5-5 5 5",
  stop: "M6.5 6.5h7v7h-7z",
  down: "M10 4v12M5 11l5 5 5-5",
  chevron: "M8 5l5 5-5 5",
  check: "M4 10.5l4 4 8-9",
  cross: "M5 5l10 10M15 5L5 15",
  copy: "M7.5 7.5h8v8h-8zM5 12.5h-.5v-8h8V5",
  retry: "M15.5 10a5.5 5.5 0 1 1-1.7-4M14 2.8V6h-3.2",
  attach: "M16 9.6l-6.2 6.2a3.7 3.7 0 0 1-5.2-5.2l6.6-6.6a2.5 2.5 0 0 1 3.5 3.5l-6.6 6.6a1.2 1.2 0 0 1-1.7-1.7l5.8-5.8",
  trash: "M4.5 6h11M8 6V4h4v2M6 6l.7 10h6.6L14 6",
  target: "M10 3.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM10 7a3 3 0 1 1 0 6 3 3 0 0 1 0-6z",
  sun: "M10 6.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7zM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M15.7 4.3l-1.1 1.1M5.4 14.6l-1.1 1.1",
  moon: "M16 11.5A6.5 6.5 0 0 1 8.5 4a6.5 6.5 0 1 0 7.5 7.5z",
  system: "M3.5 4.5h13v9h-13zM7 16.5h6",
  search: "M9 4a5 5 0 1 1 0 10A5 5 0 0 1 9 4zM12.7 12.7L16.5 16.5",
  filter: "M3.5 5h13M6 10h8M8.5 15h3",
  more: "M5 10h.01M10 10h.01M15 10h.01",
  edit: "M4 16l.8-3.4L13 4.4l2.6 2.6-8.2 8.2zM11.4 6l2.6 2.6",
  fork: "M6 7v9.5M6 13c0-4 8-2 8-6M6 3.5a1.7 1.7 0 1 1 0 3.4 1.7 1.7 0 0 1 0-3.4zM14 3.5a1.7 1.7 0 1 1 0 3.4 1.7 1.7 0 0 1 0-3.4z",
  bell: "M5 14h10l-1.3-2V9a3.7 3.7 0 0 0-7.4 0v3zM8.5 16.3h3",
  people: "M7.5 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2.5 16c.4-3 2.3-4.4 5-4.4s4.6 1.4 5 4.4M13 4.3a2.6 2.6 0 0 1 0 5M14.5 12c1.8.5 2.8 1.9 3 4",
  keys: "M3 6h14v8H3zM6 9h.01M9 9h.01M12 9h.01M7 11.5h6",
  alert: "M10 3.5l7 12.5H3zM10 8.5v3.5M10 14v.2",
};

/** @param {keyof typeof PATHS} name */
export function icon(name) {
  return html`<svg class=${`icon icon-${name}`} viewBox="0 0 20 20" width="18" height="18" aria-hidden="true" focusable="false">
    <path d=${PATHS[name]} />
  </svg>`;
}
