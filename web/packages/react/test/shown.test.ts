import { describe, expect, it } from "vitest";
import type { DisplayWarning } from "@countersign/client";
import { inLine, isLongText, shownParts, totals } from "../src/forms/shown.js";

const marked = (text: string) => shownParts(text).filter((p) => p.kind === "hidden").map((p) => p.text);

describe("the server's text", () => {
  it.each([
    ["nothing", '{"a": 1}', []],
    ["a run of escapes is one mark", String.raw`{"a": "pay\u{200B}\u{202E}x\u{E0041}"}`, [String.raw`\u{200B}\u{202E}`, String.raw`\u{E0041}`]],
    ["a backslash of the arguments is no escape", String.raw`{"a": "\\u{200B}"}`, []],
    ["after a backslash of the arguments", String.raw`"\\\u{200B}\\n"`, [String.raw`\u{200B}`]],
    ["quotes are no escapes", String.raw`"\"\u{0}\""`, [String.raw`\u{0}`]],
  ])("marks its escapes: %s", (_, text, expected) => {
    expect(marked(text)).toEqual(expected);
  });

  it("is drawn whole, however it is marked", () => {
    for (const text of ["", "{}", String.raw`"\n\n` + "\n    x" + String.raw`\t\u{0}\\"`, String.raw`\u{200B}a`.repeat(20_000)]) {
      expect(shownParts(text).map((p) => p.text).join("")).toBe(text);
    }
    expect(shownParts(String.raw`\u{200B}a`.repeat(20_000)).length).toBeLessThan(5000);
  });

  it("is long by its characters or its lines", () => {
    expect(isLongText("x".repeat(4000))).toBe(false);
    expect(isLongText("x".repeat(4001))).toBe(true);
    expect(isLongText("\n".repeat(59))).toBe(false);
    expect(isLongText("\n".repeat(60))).toBe(true);
  });

  it("goes on one line in a summary", () => {
    expect(inLine('{\n  "a": "x\\n\n    y"\n}')).toBe('{ "a": "x\\n y" }');
  });

  it("has its warnings added up", () => {
    const warnings: DisplayWarning[] = [
      { kind: "invisible", pointer: "/a", count: 2 },
      { kind: "control", pointer: "/a", count: 1 },
      { kind: "invisible", pointer: "", count: 40 },
    ];
    expect(totals(warnings)).toEqual([["invisible", 42], ["control", 1]]);
  });
});
