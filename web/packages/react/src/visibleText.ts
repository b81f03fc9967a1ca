/**
 * Characters that a reviewer could not see, or that reorder what they see, made visible.
 *
 * All format, control, private-use and unassigned characters, unusual spaces, and letters that are drawn
 * as nothing. This also marks the joiners inside some emoji: what is approved is shown exactly.
 */
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/u;
const HIDDEN_ALL = new RegExp(HIDDEN.source, "gu");

/** Line feeds and tabs are laid out, so they are not hidden. */
const isLaidOut = (char: string) => char === "\n" || char === "\t";

export interface Segment {
  text: string;
  hidden: boolean;
}

export function codePointName(char: string): string {
  const hex = (char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return `⟨U+${hex}⟩`;
}

export function hasHidden(text: string): boolean {
  for (const match of text.matchAll(HIDDEN_ALL)) if (!isLaidOut(match[0])) return true;
  return false;
}

/** `more`: the indexes of other characters to show. */
export function segments(text: string, more?: ReadonlySet<number>): Segment[] {
  const found: Segment[] = [];
  let from = 0;
  const show = (char: string, at: number) => {
    if (at > from) found.push({ text: text.slice(from, at), hidden: false });
    found.push({ text: codePointName(char), hidden: true });
    from = at + char.length;
  };
  const hidden = [...text.matchAll(HIDDEN_ALL)].filter((match) => !isLaidOut(match[0])).map((match) => match.index);
  const all = more?.size ? [...new Set([...hidden, ...more])].sort((a, b) => a - b) : hidden;
  for (const at of all) show(String.fromCodePoint(text.codePointAt(at) ?? 0), at);
  if (from < text.length) found.push({ text: text.slice(from), hidden: false });
  return found;
}

export function visibleText(text: string): string {
  return segments(text)
    .map((s) => s.text)
    .join("");
}

/**
 * For running text: only the characters that could make a sentence read differently from what it says.
 * Joiners stay as they are, because emoji and several scripts are written with them.
 */
export function showDirectionMarks(text: string): string {
  return text.replace(/[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/gu, codePointName);
}
