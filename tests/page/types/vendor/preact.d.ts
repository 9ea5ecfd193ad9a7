export function h(...parts: unknown[]): object;
export function render(node: unknown, place: Element): void;
export const Fragment: unknown;
export class Component {
  props: any;
  state: any;
  setState(state: object): void;
  render(props: any, state: any): unknown;
  [name: string]: any;
}
