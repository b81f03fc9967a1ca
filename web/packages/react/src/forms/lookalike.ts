/**
 * Lookalike letters, for texts that a person is typing. The server's text has them escaped by Unicode's full tables;
 * here they are those that it escaped in the same arguments, and the simple cases of new ones.
 */
import type { Display } from "@countersign/client";

/** After this many marks a text is rendered without them, so that the page stays usable. */
export const MARKS = 4000;

/** The characters beyond ASCII that the server escaped; in a word of two scripts it also escapes the Latin letters. */
export function escapedIn(display: Display | undefined): ReadonlySet<string> {
  const found = new Set<string>();
  for (const [whole, hex] of (display?.text ?? "").matchAll(/\\u\{([0-9A-F]+)\}|\\./gsu)) {
    const code = hex === undefined ? 0 : Number.parseInt(hex, 16);
    if (whole.startsWith("\\u{") && code > 0x7f && code <= 0x10ffff) found.add(String.fromCodePoint(code));
  }
  return found;
}

const NONE: ReadonlySet<string> = new Set();
const WORD = /[\p{L}\p{M}\p{Nd}_]+/gu;
const OTHER = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}]/u;
/** Cyrillic and Greek letters that look like Latin ones. */
const TWINS = new Set("АВЕЅІЈКМНОРСТУХԚԜаеорсухіјѕһԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧονο");

/** The indexes of their first code units. */
export function lookalikes(text: string, known: ReadonlySet<string> = NONE): ReadonlySet<number> {
  const found = new Set<number>();
  // Nearly every text.
  if (/^[\x00-\x7f]*$/.test(text)) return found;
  const others = [...text].filter((char) => OTHER.test(char));
  const readsAsLatin = others.length > 0 && others.every((char) => TWINS.has(char));
  for (const { 0: word, index } of text.matchAll(WORD)) {
    const mixed = /[A-Za-z]/.test(word);
    let at = index;
    for (const char of word) {
      if ((OTHER.test(char) && (mixed || readsAsLatin)) || isDisguised(char)) found.add(at);
      at += char.length;
    }
  }
  let at = 0;
  for (const char of text) {
    if (known.has(char)) found.add(at);
    at += char.length;
  }
  return found;
}

/** Another encoding of an ordinary letter or digit: `ﬁ`, `ſ`, `𝐩`, `Ａ`. */
function isDisguised(char: string): boolean {
  return char > "\x7f" && /^[A-Za-z0-9]+$/.test(char.normalize("NFKC"));
}
