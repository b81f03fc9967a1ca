import { describe, expect, it } from "vitest";
import type { ApprovalView } from "@countersign/client";
import { bulkDecisions, fitsBulk } from "../src/lib/bulk.js";
import { everything, inboxHref, readQuery, type InboxQuery } from "../src/lib/inbox.js";
import { riskOf } from "../src/lib/risk.js";
import { choicesOf, firstOf, grouped, matching, nextAfter, stepFrom, valuesOf } from "../src/lib/listing.js";

function request(n: number, more: Partial<ApprovalView> = {}): ApprovalView {
  return {
    approvalKey: `s_${n}`,
    sessionId: "s",
    kind: "approval",
    actions: [{ name: "pay", agent: "trader", args: { to: "Đặng Mưa" }, digest: `d${n}`, args_digest: `a${n}` }],
    reviewConfigs: [{ role: "admin", title: `Pay number ${n}` }],
    subject: "alice",
    complete: true,
    updates: [],
    ...more,
  };
}

const keys = (rows: ApprovalView[]) => rows.map((row) => row.approvalKey);

describe("the inbox's address", () => {
  it("says what is shown, and is read back to the same", () => {
    const query: InboxQuery = {
      tab: "others",
      search: "100% & mưa",
      filters: { tool: "a&b", risk: "high" },
      group: "requester",
      open: "s_1",
    };
    for (const one of [everything, query]) {
      const href = inboxHref(one);
      expect(readQuery(href.replace(/^#\/inbox\??/, ""))).toEqual(one);
    }
    expect(inboxHref()).toBe("#/inbox");
  });

  it("is read whatever it says", () => {
    expect(readQuery("show=evil&group=__proto__&tool=&q=%E0%A4%A")).toEqual({ ...everything, search: readQuery("q=%E0%A4%A").search });
    expect(readQuery(`q=${"x".repeat(5000)}`).search).toHaveLength(200);
  });
});

describe("what is found", () => {
  const rows = [
    request(1),
    request(2, { subject: "bob", reviewConfigs: [{ risk: "high" }] }),
    request(3, { actions: [{ name: "sell", args: {} }, { name: "pay", args: {} }], reviewConfigs: [{}, {}] }),
  ];
  const find = (search: string, filters: InboxQuery["filters"] = {}) => keys(matching(rows, { search, filters }));

  it("has every word, in any order and case, with or without accents", () => {
    expect(find("NUMBER pay")).toEqual(["s_1"]);
    expect(find("dang mua")).toEqual(["s_1", "s_2"]);
    expect(find("bob nothing")).toEqual([]);
    expect(find("  ")).toEqual(["s_1", "s_2", "s_3"]);
    expect(find("admin")).toEqual(["s_1"]);
  });

  it("fits every filter; one of a request's actions is enough", () => {
    expect(find("", { tool: "pay" })).toEqual(["s_1", "s_2", "s_3"]);
    expect(find("", { tool: "sell" })).toEqual(["s_3"]);
    expect(find("", { tool: "pay", requester: "bob" })).toEqual(["s_2"]);
    expect(find("", { role: "user" })).toEqual(["s_2", "s_3"]);
    expect(find("", { risk: "high" })).toEqual(["s_2"]);
    expect(find("", { risk: "low" })).toEqual([]);
  });

  it("looks at who was handed the request", () => {
    const handed = request(4, { updates: [{ update: "reassigned", role: "legal" }] });
    expect(valuesOf(handed, "role")).toEqual(["legal"]);
  });

  it("can be chosen from what there is, and from what was chosen", () => {
    expect(choicesOf(rows, "tool", undefined)).toEqual([["pay", 3], ["sell", 1]]);
    expect(choicesOf(rows, "risk", "low")).toEqual([["high", 1], ["low", 0]]);
  });
});

describe("the risk of a request", () => {
  const of = (...risks: (string | undefined)[]) => request(1, { reviewConfigs: risks.map((risk) => ({ risk })) as ApprovalView["reviewConfigs"] });

  it("is the highest of its calls, whichever that is", () => {
    expect([riskOf(of("medium", "medium", "high")), riskOf(of("high", "low")), riskOf(of(undefined, "low")), riskOf(of(undefined))]).toEqual(["high", "high", "low", undefined]);
    // One of a newer server.
    expect(riskOf(of("high", "extreme", "low"))).toBe("extreme");
  });

  it("is what it is found and grouped by", () => {
    const rows = [of("medium", "high"), of("medium")];
    expect(grouped(rows, "risk").map(({ values }) => values)).toEqual([["high"], ["medium"]]);
    expect(matching(rows, { search: "", filters: { risk: "medium" } })).toEqual([rows[1]]);
  });
});

describe("the order of the list", () => {
  const rows = [request(1, { subject: "bob" }), request(2), request(3, { subject: "bob" })];

  it("is that of the rows, and in groups that of their first rows", () => {
    expect(grouped(rows, undefined).map((group) => keys(group.rows))).toEqual([["s_1", "s_2", "s_3"]]);
    const groups = grouped(rows, "requester");
    expect(groups.map(({ values, rows: of }) => [values, keys(of)])).toEqual([[["bob"], ["s_1", "s_3"]], [["alice"], ["s_2"]]]);
    expect(grouped([], "tool")).toEqual([]);
    expect(firstOf(groups, 1).map((group) => [keys(group.rows), group.total])).toEqual([[["s_1"], 2]]);
    expect(firstOf(groups, 2).map((group) => keys(group.rows))).toEqual([["s_1", "s_3"]]);
    expect(firstOf(groups, 3)).toHaveLength(2);
  });

  it("is gone through by steps, and on from what is decided", () => {
    const order = ["a", "b", "c"];
    expect([stepFrom(order, undefined, 1), stepFrom(order, undefined, -1), stepFrom(order, "gone", 1)]).toEqual(["a", "c", "a"]);
    expect([stepFrom(order, "a", 1), stepFrom(order, "c", 1), stepFrom(order, "a", -1), stepFrom([], "a", 1)]).toEqual(["b", "c", "a", undefined]);
    expect([nextAfter(order, "a"), nextAfter(order, "c"), nextAfter(["a"], "a"), nextAfter(order, "gone")]).toEqual(["b", "b", undefined, "a"]);
  });
});

describe("one decision about many", () => {
  it("names the digests of every action", () => {
    const two = request(1, {
      actions: [{ name: "pay", args: {}, digest: "d1", args_digest: "a1" }, { name: "sell", args: {}, digest: "d2", args_digest: "a2" }],
      reviewConfigs: [{}, {}],
    });
    expect(bulkDecisions(two, "approve", "")).toEqual([
      { type: "approve", digest: "d1", args_digest: "a1" },
      { type: "approve", digest: "d2", args_digest: "a2" },
    ]);
    expect(bulkDecisions(request(1), "reject", " late ")).toEqual([{ type: "reject", message: "late", digest: "d1", args_digest: "a1" }]);
  });

  it("is for plain approvals that allow it", () => {
    expect([fitsBulk(request(1), "approve"), fitsBulk(request(1, { kind: "in_doubt" }), "approve"), fitsBulk(request(1, { kind: "question" }), "reject")]).toEqual([true, false, false]);
    const one = request(1, { reviewConfigs: [{ allowed_decisions: ["reject"] }] });
    expect([fitsBulk(one, "approve"), fitsBulk(one, "reject")]).toEqual([false, true]);
  });
});
