/**
 * Texts that keep the Markdown parser busy for minutes, in which the page answers nobody: two thousand lists inside each
 * other are four kilobytes, and take half a minute. Nobody could read them as Markdown anyway.
 */

/** At most so many quotes and lists begin in one line, and so far to the right; and so many beyond `USUAL` in all lines. */
const [BEGUN, COLUMNS, ALL] = [12, 100, 1000];
const USUAL = 3;
/** At most so many marks are in one paragraph: the parser compares each with all others. */
const MARKS = 1500;
/** An image may be inside the text of another one, without end. */
const IMAGE = 5;

const LINES = /^((?:[ \t]|>|(?:[-+*]|\d{1,9}[.)])[ \t])+)(.*)/gm;
/** A line across the page, which may be written with spaces. */
const RULE = /^[ \t]*([-*])(?:[ \t]*\1)*[ \t]*$/;
/** What ends a paragraph; an image; and what may begin or end emphasis: no `*` between spaces, and no `_` in a word. */
const MARK = /\n(?=[ \t]*\n| {0,3}(?:[-+*]|#{1,6})[ \t])|!\[|\*+(?<!\s\*(?=\s))|~+|_+(?<![\p{L}\p{N}]_(?=[\p{L}\p{N}]))/gu;

/** Whether a text is better shown as it was written. */
export function isDeep(text: string): boolean {
  let all = 0;
  for (const [line, prefix = ""] of text.matchAll(LINES)) {
    const begun = RULE.test(line) ? 0 : (prefix.match(/[>*+-]|\d+/g)?.length ?? 0);
    all += Math.max(0, begun - USUAL);
    if (begun > BEGUN || all > ALL || (begun > 0 && prefix.length > COLUMNS)) return true;
  }
  let marks = 0;
  for (const [mark] of text.matchAll(MARK)) {
    if (mark === "\n") marks = 0;
    else marks += mark === "![" ? IMAGE : Math.ceil(mark.length / 2);
    if (marks > MARKS) return true;
  }
  return false;
}
