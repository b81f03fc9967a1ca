import { describe, expect, it } from "vitest";
import { approvalFromBlock, historyOf, parseJson, pendingApprovals, stringifyJson, type JsonValue } from "../src/index.js";
import { delta, type Loose, numbered, rest, run, start, stop } from "./events.js";

const interrupt = { node: "article", name: "review", payload: { text: "Green." }, schema: { type: "boolean" } };
const answered = (resume: JsonValue) =>
  numbered([
    { type: "message_start", message_id: "m1", role: "assistant" },
    start(0, { type: "approval_request", approval_key: "s1_1", kind: "interrupt", actions: [{ name: "review", args: {} }], interrupt }),
    stop(0),
    { type: "run_status", status: "awaiting_input", pending: ["s1_1"] },
    { type: "approval_resolved", approval_key: "s1_1", resolution: "decided", by: "alice" },
    start(1, { type: "approval_result", approval_key: "s1_1" }),
    delta(1, { resume }),
    stop(1),
  ]);

describe("what a node of a graph asks", () => {
  it("waits with its question until it is answered", () => {
    const waiting = run(answered(true).slice(0, 4));
    expect(pendingApprovals(waiting)).toMatchObject([{ kind: "interrupt", interrupt }]);
    expect(historyOf(waiting)[0]?.content).toMatchObject([{ isResolved: false, interrupt }]);
  });

  it("keeps every ordinary value as the answer, whatever the connection does", () => {
    for (const text of ["null", "false", "0", '""', "{}", "1.10", "9007199254740993"]) {
      const events = answered(parseJson(text));
      const view = run(events);
      expect(stringifyJson(view.approvals.s1_1?.resume)).toBe(text);
      expect(view.approvals.s1_1).toMatchObject({ resolution: "decided", by: "alice" });
      for (let cut = 0; cut <= events.length; cut++) {
        expect(run(rest(events, cut), run(events.slice(0, cut)))).toEqual(view);
      }
      const [block] = historyOf(view)[0]!.content;
      expect(stringifyJson((block as { submittedResume?: JsonValue }).submittedResume)).toBe(text);
    }
  });

  it("w2: knows the answer while the turn has failed, before its block comes", () => {
    for (const resume of [null, false, "yes"]) {
      const failed = { type: "run_status", status: "failed", pending: ["s1_1"], error: { code: "node_failed", message: "down" } };
      const told = { type: "approval_resolved", approval_key: "s1_1", resolution: "decided", by: "alice", resume };
      const view = run(numbered([...answered(true).slice(0, 4), failed, told] as Loose[]));
      expect(view.approvals.s1_1).toMatchObject({ resolution: "decided", resume });
    }
  });

  it("names a step whose outcome is unknown", () => {
    const step = { node: "publish", name: "send" };
    const approval = approvalFromBlock({ type: "approval_request", approval_key: "s1_2", kind: "in_doubt", actions: [], step }, "s1");
    expect(approval).toMatchObject({ kind: "in_doubt", step });
    expect(approval).not.toHaveProperty("interrupt");
  });
});
