import { expect, test } from "vitest";
import type { SessionSummary } from "@countersign/client";
import { searchSessions } from "../src/lib/sessions.js";

const rows = [
  { session_id: "019a-AAA", title: "Mua 100 cổ phiếu Đạm Cà Mau", agent: "trader" },
  { session_id: "019b-BBB", title: "Sell VNM", agent: "trader" },
  { session_id: "019c-CCC", agent: "helper" },
] as SessionSummary[];
const found = (text: string) => searchSessions(rows, text).map((row) => row.session_id.slice(3, 4));

test("u1 a search finds every word in title or id, whatever its accents and case", () => {
  expect(found("co phieu DAM")).toEqual(["a"]);
  expect(found("019")).toEqual(["a", "b", "c"]);
  expect(found("bbb sell")).toEqual(["b"]);
  expect(found("sell bbb mua")).toEqual([]);
  // It is the agent of nearly all.
  expect(found("trade")).toEqual([]);
});

test("u1 nothing to search for finds all, as they are", () => {
  expect(searchSessions(rows, "  ")).toBe(rows);
});
