/** The server's REST side, and the token that opens it. */
import { signal } from "./h.js";

const TOKEN = "nanobot.token";

/** Whether the server asks who we are. */
export const refused = signal(false);

export const token = () => sessionStorage.getItem(TOKEN) ?? "";

/** @param {string} value */
export function signIn(value) {
  sessionStorage.setItem(TOKEN, value);
  refused.value = false;
}

export class ApiError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * @param {string} path below /api/
 * @param {{method?: string, body?: unknown}} [options]
 */
export async function api(path, { method = "GET", body } = {}) {
  const response = await fetch(new URL(`api/${path}`, document.baseURI), {
    method,
    headers: {
      ...(token() ? { Authorization: `Bearer ${token()}` } : {}),
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    },
    body: body === undefined ? undefined : JSON.stringify(body),
    keepalive: method === "DELETE", // also from a page that is being left
    signal: AbortSignal.timeout(20_000),
  });
  if (response.status === 401) refused.value = true;
  const text = await response.text();
  let answer = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch {
    answer = null;
  }
  if (!response.ok) throw new ApiError(response.status, response.status === 401 ? "you are not signed in" : (answer?.error?.detail ?? `${response.status}`));
  return answer;
}

/** A file of this server as an address an <img> can use; the token must travel in a header. @param {string} url */
export async function fileUrl(url) {
  const place = new URL(url, document.baseURI);
  if (place.origin !== location.origin) return "";
  if (!token()) return place.href;
  const response = await fetch(place, { headers: { Authorization: `Bearer ${token()}` } });
  return response.ok ? URL.createObjectURL(await response.blob()) : "";
}
