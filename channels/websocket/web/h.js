/** The view library in one place: every module takes its `html`, hooks and signals from here. */
import { h, render, Component, Fragment } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { h, render, Component, Fragment };
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export { signal, computed, effect, batch, useSignal, useComputed } from "./vendor/signals.js";

export const html = htm.bind(h);
