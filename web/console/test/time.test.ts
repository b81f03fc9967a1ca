import { describe, expect, it } from "vitest";
import { clockText } from "../src/lib/clock.js";
import { agoText, secondsText } from "../src/lib/time.js";

describe("secondsText", () => {
  it("is a whole number of the largest unit, in the language of the page", () => {
    expect([90, 300, 7_200, 86_400, 90_000].map((n) => secondsText(n, "en"))).toEqual(["90 seconds", "5 minutes", "2 hours", "1 day", "25 hours"]);
    expect(secondsText(300, "vi")).toBe("5 phút");
    expect(secondsText(300, "zh")).toBe("5分钟");
  });
});

describe("clockText", () => {
  it("counts minutes and hours", () => {
    const clocks = [0, 4_100, 245_000, 3_723_000, -5, 86_399_000].map((ms) => clockText(ms, "en"));
    expect(clocks).toEqual(["0:00", "0:05", "4:05", "1:02:03", "0:00", "23:59:59"]);
  });

  it("says in words how many days are left: nobody reads 167:59:59", () => {
    const hours = (n: number, language: string) => clockText(n * 3_600_000, language);
    expect([24, 25, 167.9, 168].map((n) => hours(n, "en"))).toEqual(["1 day", "1 day 1 hr", "6 days 23 hr", "7 days"]);
    expect([hours(167.9, "vi"), hours(167.9, "zh")]).toEqual(["6 ngày 23 giờ", "6天23小时"]);
  });
});

describe("agoText", () => {
  const ago = (hours: number, language: string) => agoText("2026-03-04T00:30:00Z", Date.parse("2026-03-04T00:30:00Z") + hours * 3_600_000, language);
  it("counts, and calls no day by a name that belongs to another one", () => {
    // 25 hours before half past midnight is not yesterday, and 47 hours before eleven at night is.
    expect([0, 0.5, 5, 25, 47].map((hours) => ago(hours, "en"))).toEqual(["now", "30 min. ago", "5 hr. ago", "1 day ago", "2 days ago"]);
    expect(["vi", "zh"].flatMap((language) => [ago(0, language), ago(25, language), ago(47, language)])).toEqual([
      "bây giờ", "1 ngày trước", "2 ngày trước", "现在", "1天前", "2天前",
    ]);
  });
});
