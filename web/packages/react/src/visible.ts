/**
 * Text of a model, with what a screen would not show, or show in another order, written as `\u{HEX}`: controls, formats,
 * unassigned and private characters. Line ends and tabs stay. (The arguments' `display` has been made so by the server.)
 */
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cn}\p{Co}\u2028\u2029]/gu, (char) =>
    char === "\n" || char === "\t" ? char : `\\u{${char.codePointAt(0)?.toString(16).toUpperCase()}}`,
  );
}
