/** Times in a person's words. */

const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const withYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long", year: "numeric" });

/** Days between a moment and today. @param {number} time */
export function daysAgo(time) {
  const start = new Date().setHours(0, 0, 0, 0);
  return Math.round((start - new Date(time).setHours(0, 0, 0, 0)) / 86_400_000);
}

/** @param {number} time */
export function dayName(time) {
  const ago = daysAgo(time);
  if (ago <= 0) return "Today";
  if (ago === 1) return "Yesterday";
  return ago < 180 ? weekday.format(time) : withYear.format(time);
}

/** @param {number} time */
export function groupName(time) {
  const ago = daysAgo(time);
  if (ago <= 0) return "Today";
  if (ago === 1) return "Yesterday";
  return ago <= 7 ? "Last week" : "Older";
}

/** @param {number} time */
export const clock = (time) => hour.format(time);

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds < 1) return "under 1 s";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** A number of tokens: 950, 12k, 1.3M. @param {number} value */
export function count(value) {
  if (value < 1_000) return String(Math.round(value));
  return value < 1e6 ? `${(value / 1_000).toFixed(value < 9_950 ? 1 : 0)}k` : `${(value / 1e6).toFixed(1)}M`;
}
