import { describe, expect, it } from "vitest";
import { parseJson } from "@countersign/client";
import { valueText } from "../src/lib/values.js";
import { hasHidden, showDirectionMarks, visibleText } from "../src/lib/visible.js";

describe("hidden characters", () => {
  it.each([
    ["right-to-left override", "pay\u202eeno", "pay⟨U+202E⟩eno"],
    ["zero width space", "a\u200bb", "a⟨U+200B⟩b"],
    ["no-break space", "a\u00a0b", "a⟨U+00A0⟩b"],
    ["escape", "\u001b[31mred", "⟨U+001B⟩[31mred"],
    ["carriage return", "safe\rrm", "safe⟨U+000D⟩rm"],
    ["tag letters", "x\u{e0041}", "x⟨U+E0041⟩"],
    ["Hangul filler", "\u3164", "⟨U+3164⟩"],
    ["a lone surrogate", "a\ud800b", "a⟨U+D800⟩b"],
  ])("shows %s", (_, text, shown) => {
    expect(visibleText(text)).toBe(shown);
    expect(hasHidden(text)).toBe(true);
  });

  it("leaves ordinary text of any script alone", () => {
    for (const text of ["Dữ liệu tiếng Việt", "删除文件，确定？", "line\n\tnext", "😀 ok"]) {
      expect(visibleText(text)).toBe(text);
      expect(hasHidden(text)).toBe(false);
    }
  });

  it("keeps emoji whole in running text, but no direction mark", () => {
    expect(showDirectionMarks("👩‍💻 a\u202eb")).toBe("👩‍💻 a⟨U+202E⟩b");
  });
});

describe("valueText", () => {
  it("shows numbers as they were written", () => {
    expect(valueText(parseJson("1.10"))).toBe("1.10");
    expect(valueText(parseJson("9007199254740993"))).toBe("9007199254740993");
  });

  it("quotes a string that could be taken for something else, and only that", () => {
    expect(valueText("buy")).toBe("buy");
    expect(["5", "true", "", " x ", "null", "{}"].map(valueText)).toEqual(['"5"', '"true"', '""', '" x "', '"null"', '"{}"']);
  });
});
