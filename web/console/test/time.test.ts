import { describe, expect, it } from "vitest";
import { clockText, secondsText } from "../src/lib/time.js";

describe("secondsText", () => {
  it("is a whole number of the largest unit, in the language of the page", () => {
    expect([90, 300, 7_200, 86_400, 90_000].map((n) => secondsText(n, "en"))).toEqual(["90 seconds", "5 minutes", "2 hours", "1 day", "25 hours"]);
    expect(secondsText(300, "vi")).toBe("5 phút");
    expect(secondsText(300, "zh")).toBe("5分钟");
  });
});

describe("clockText", () => {
  it("counts minutes and hours", () => {
    expect([0, 4_100, 245_000, 3_723_000, -5].map(clockText)).toEqual(["0:00", "0:05", "4:05", "1:02:03", "0:00"]);
  });
});
