export class Marked {
  constructor(options: object);
  lexer(text: string): any[] & { links: Record<string, unknown> };
}
