import { describe, expect, it } from "vitest";
import type { Display } from "@countersign/client";
import { segments } from "@countersign/react";
import { escapedIn, lookalikes } from "../src/forms/lookalike.js";

const shown = (text: string, known?: ReadonlySet<string>) =>
  segments(text, lookalikes(text, known))
    .map((s) => s.text)
    .join("");

describe("letters that are drawn like others", () => {
  it.each([
    ["one Cyrillic letter in a Latin word", "VN\u041c", "VN⟨U+041C⟩"],
    ["a word that reads as Latin", "\u0421\u0410\u041e", "⟨U+0421⟩⟨U+0410⟩⟨U+041E⟩"],
    ["a Greek letter in a Latin word", "pr\u03bfd", "pr⟨U+03BF⟩d"],
    ["another encoding", "pa\u{1d432} \ufb01le \uff21", "pa⟨U+1D432⟩ ⟨U+FB01⟩le ⟨U+FF21⟩"],
    ["beside a hidden one", "V\u200bN\u041c", "V⟨U+200B⟩N⟨U+041C⟩"],
  ])("marks %s", (_, text, marked) => expect(shown(text)).toBe(marked));

  it("leaves texts of one script alone", () => {
    for (const text of ["Mua 100 cổ phiếu VNM", "买入 100 股 VNM，价格 82,000", "Купить сто акций, это хорошо", "x² №5 “ok”…", "για"]) {
      expect(shown(text)).toBe(text);
    }
  });

  it("marks what the server escaped in the same arguments", () => {
    const display: Display = { text: '{"a": "\\u{56}\\u{41C} \\\\u{430} \\u{A7B3}"}', digest: "", bytes: 1, warnings: [] };
    const known = escapedIn(display);
    expect([...known]).toEqual(["\u041c", "\ua7b3"]);
    expect(shown("a\ua7b3", known)).toBe("a⟨U+A7B3⟩");
  });
});
