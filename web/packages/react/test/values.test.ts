import { describe, expect, it } from "vitest";
import { parseJson } from "@countersign/client";
import { valueText } from "../src/forms/values.js";

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
