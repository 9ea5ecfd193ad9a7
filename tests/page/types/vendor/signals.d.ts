import type { Signal } from "./signals-core.js";
export function signal<T>(value: T): Signal<T>;
export function computed<T>(read: () => T): Signal<T>;
export function effect(run: () => void): () => void;
export function batch<T>(run: () => T): T;
export function useSignal<T>(value: T): Signal<T>;
export function useComputed<T>(read: () => T): Signal<T>;
