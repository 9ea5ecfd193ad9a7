export class Lexer {
  constructor(options: object);
  lex(text: string): any[] & { links: Record<string, unknown> };
}
export function getDefaults(): object;
