export function useEffect(run: () => unknown, on?: unknown[]): void;
export function useLayoutEffect(run: () => unknown, on?: unknown[]): void;
export function useMemo<T>(make: () => T, on: unknown[]): T;
export function useRef<T>(value: T): { current: T };
export function useState<T>(value: T): [T, (next: T) => void];
