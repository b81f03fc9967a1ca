/** The preview of a call, cut into lines that are rendered differently. */
import type { Preview } from "@countersign/client";

export interface PreviewLine {
  kind: "file" | "hunk" | "add" | "remove" | "same" | "note";
  text: string;
}

/**
 * The lines of a preview. In a diff, the line count of a hunk decides which lines belong to it: no line of a file is
 * taken for a heading, whatever it begins with.
 */
export function previewLines({ kind, text }: Preview): PreviewLine[] {
  const lines = text.split("\n");
  if (kind !== "diff") return lines.map((line) => ({ kind: "same", text: line }));
  let [before, after] = [0, 0];
  return lines.map((text) => {
    if (text.startsWith("\\")) return { kind: "note", text };
    if (before > 0 || after > 0) {
      if (text.startsWith("+")) {
        after -= 1;
        return { kind: "add", text };
      }
      before -= 1;
      if (text.startsWith("-")) return { kind: "remove", text };
      after -= 1;
      return { kind: "same", text };
    }
    const hunk = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(text);
    if (hunk) {
      [before, after] = [Number(hunk[1] ?? 1), Number(hunk[2] ?? 1)];
      return { kind: "hunk", text };
    }
    return { kind: /^(?:---|\+\+\+) /.test(text) ? "file" : "note", text };
  });
}

/** A line, with the escapes of invisible characters as separate parts. Joined again, the parts are the line. */
export function hiddenParts(line: string): { text: string; hidden: boolean }[] {
  return line
    .split(/((?:\\u\{[0-9A-F]+\})+)/)
    .map((text, i) => ({ text, hidden: i % 2 === 1 }))
    .filter(({ text }) => text !== "");
}
