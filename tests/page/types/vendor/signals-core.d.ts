export interface Signal<T> {
  value: T;
  peek(): T;
}
