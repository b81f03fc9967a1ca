/**
 * Texts that keep the Markdown parser busy for minutes, in which the page answers nobody: two thousand lists inside each
 * other are four kilobytes, and take half a minute. Nobody could read them as Markdown anyway.
 */

/** At most so many quotes and lists begin in one line, and so far to the right; and so many beyond `USUAL` in all lines. */
const [BEGUN, COLUMNS, ALL] = [12, 100, 1000];
const USUAL = 3;
/** At most so many lines begin a quote, or a list inside another one: each is compared with those before. */
const NESTED = 2000;
/** At most so many lines are in a text: each may be an element of the page. */
const LONG = 10_000;
/** At most so many footnotes, and references to them: each is looked up among all of them. */
const NOTES = 1000;
/** At most so many marks are in one paragraph: the parser compares each with all others. */
const MARKS = 1500;
/** An image may be inside the text of another one, without end. */
const IMAGE = 5;
/** The end of a line or of a link, and code, cost less, and there are more of them in ordinary texts. */
const SMALL = 0.25;
/** At most so many cells are in all tables: a row has as many as the first one, however short its line is. */
const CELLS = 20_000;

const LINE_ENDS = /\n/g;
const NOTE = /\[\^/g;
const LINES = /^((?:[ \t]|>|(?:[-+*]|\d{1,9}[.)])[ \t])+)(.*)/gm;
/** A line across the page, which may be written with spaces. */
const RULE = /^[ \t]*([-*])(?:[ \t]*\1)*[ \t]*$/;
/**
 * What ends a paragraph; another line's end; an image; the end of a link; code; and what may begin or end emphasis: no `*`
 * between spaces, and no `_` in a word.
 */
const MARK = /(\n(?=[ \t]*\n| {0,3}(?:[-+*]|#{1,6})[ \t]))|\n|!\[|\]+|`+|\*+(?<!\s\*(?=\s))|~+|_+(?<![\p{L}\p{N}]_(?=[\p{L}\p{N}]))/gu;
/** Below a table's first row; and what ends a table. */
const DIVIDER = /^[ \t>]*[|:-][|:\t -]*$/;
const EMPTY = /^[ \t>]*$/;

/** Whether a text is better shown as it was written. */
export function isDeep(written: string): boolean {
  const text = written.replaceAll(/\r\n?/g, "\n");
  return hasMore(text, LINE_ENDS, LONG) || hasMore(text, NOTE, NOTES) || hasDeepLines(text) || hasManyMarks(text) || hasManyCells(text);
}

const hasMore = (text: string, what: RegExp, most: number) => (text.match(what)?.length ?? 0) > most;

function hasDeepLines(text: string): boolean {
  let [all, nested] = [0, 0];
  for (const [line, prefix = ""] of text.matchAll(LINES)) {
    const begun = RULE.test(line) ? 0 : (prefix.match(/[>*+-]|\d+/g)?.length ?? 0);
    all += Math.max(0, begun - USUAL);
    nested += Number(begun > 1 || (begun > 0 && /^[ \t>]/.test(prefix)));
    if (begun > BEGUN || all > ALL || nested > NESTED || (begun > 0 && prefix.length > COLUMNS)) return true;
  }
  return false;
}

function hasManyMarks(text: string): boolean {
  let marks = 0;
  for (const [mark, end] of text.matchAll(MARK)) {
    marks = end ? 0 : marks + weight(mark);
    if (marks > MARKS) return true;
  }
  return false;
}

function weight(mark: string): number {
  if (mark === "![") return IMAGE;
  return /^[\n\]`]/.test(mark) ? mark.length * SMALL : Math.ceil(mark.length / 2);
}

function hasManyCells(text: string): boolean {
  if (!text.includes("|")) return false;
  let [cells, columns] = [0, 0];
  for (const line of text.split("\n")) {
    if (EMPTY.test(line)) columns = 0;
    else if (DIVIDER.test(line) && line.includes("|")) columns = line.split("|").length;
    cells += columns;
    if (cells > CELLS) return true;
  }
  return false;
}
