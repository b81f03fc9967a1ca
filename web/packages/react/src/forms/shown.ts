/** The server's text of a call's arguments, cut into parts that are rendered differently. */
import type { DisplayWarning, DisplayWarningKind } from "@countersign/client";
import { MARKS } from "./lookalike.js";

export interface ShownPart {
  text: string;
  /** `hidden`: stands for characters that would be invisible, or mistaken for others. `break`: a line feed or a tab. */
  kind: "plain" | "hidden" | "break";
}

/** Joined again, the parts are the text: nothing is added, changed or left out. */
export function shownParts(text: string): ShownPart[] {
  const parts: ShownPart[] = [];
  let from = 0;
  const push = (to: number, kind: ShownPart["kind"]) => {
    if (to > from) parts.push({ text: text.slice(from, to), kind });
    from = to;
  };
  // A backslash in the arguments is written as two, and is not an escape.
  for (const match of text.matchAll(/(?:\\u\{[0-9A-F]+\})+|(?:\\[nt])+|\\./gsu)) {
    if (match[0] === "\\\\" || match[0] === '\\"') continue;
    if (parts.length > MARKS) break;
    push(match.index, "plain");
    push(match.index + match[0].length, match[0].startsWith("\\u") ? "hidden" : "break");
  }
  push(text.length, "plain");
  return parts;
}

/** Longer texts scroll, and must have been read to their end before they are approved. */
export function isLongText(text: string): boolean {
  return text.length > 4000 || text.split("\n", 61).length > 60;
}

/** All on one line, for a summary. */
export function inLine(text: string): string {
  return text.replace(/\n */g, " ");
}

/** How many there are of each kind. */
export function totals(warnings: readonly DisplayWarning[]): [DisplayWarningKind, number][] {
  const found = new Map<DisplayWarningKind, number>();
  for (const { kind, count } of warnings) found.set(kind, (found.get(kind) ?? 0) + count);
  return [...found];
}
