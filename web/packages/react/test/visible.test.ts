import { describe, expect, it } from "vitest";
import { hasHidden, showDirectionMarks, visibleText } from "../src/index.js";

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
