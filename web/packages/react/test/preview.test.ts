import { describe, expect, it } from "vitest";
import { hiddenParts, previewLines } from "../src/forms/preview.js";

const kinds = (text: string) => previewLines({ kind: "diff", text, left_out: 0 }).map((line) => line.kind);

describe("previews", () => {
  it("s12 a diff's lines are told apart", () => {
    const text = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\\ No newline at end of file\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+y";
    expect(kinds(text)).toEqual(["file", "file", "hunk", "same", "remove", "add", "note", "file", "file", "hunk", "add"]);
  });

  it("s12 a line of a file is never drawn as a heading", () => {
    // Removed is "-- a/secret", added is "++ b/harmless", and a line that looks like the beginning of a hunk.
    const text = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/secret\n+++ b/harmless\n @@ -9,9 +9,9 @@";
    expect(kinds(text)).toEqual(["file", "file", "hunk", "remove", "add", "same"]);
  });

  it("s12 other previews are text as it stands", () => {
    expect(previewLines({ kind: "text", text: "$ a\n+b", left_out: 0 }).map((line) => line.kind)).toEqual(["same", "same"]);
  });

  it("w4 what stands for hidden characters is marked, and nothing is lost", () => {
    const line = "+a\\u{202E}\\u{2066}b \\n \\u{5C}u{20}";
    const parts = hiddenParts(line);
    expect(parts.map((part) => part.text).join("")).toBe(line);
    expect(parts.filter((part) => part.hidden).map((part) => part.text)).toEqual(["\\u{202E}\\u{2066}", "\\u{5C}"]);
  });
});
