import { describe, expect, it } from "vitest";
import { parseJson } from "@countersign/client";
import { zonedText } from "../src/forms/dates.js";
import { valueText } from "../src/forms/values.js";

it.each(["en", "vi", "zh"])("u2: a moment beside its exact text says in which zone it is, in %s", (language) => {
  const at = "2026-03-01T09:00:00+09:00";
  const parts = new Intl.DateTimeFormat(language, { timeZoneName: "short" }).formatToParts(new Date(at));
  expect(zonedText(at, language)).toContain(parts.find(({ type }) => type === "timeZoneName")?.value);
  expect(zonedText("tomorrow", language)).toBe("tomorrow");
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
