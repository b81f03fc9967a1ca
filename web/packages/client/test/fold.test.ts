import { describe, expect, it } from "vitest";
import {
  assigned,
  decidingRole,
  emptySession,
  fold,
  foldAll,
  pendingApprovals,
  progress,
  timeline,
  toolArgs,
} from "../src/index.js";
import { delta, type Loose, numbered, rest, run, S, start, stop } from "./events.js";

const turn = numbered([
  { type: "message_start", message_id: "u1", role: "user" },
  start(0, { type: "text" }, "u1"),
  delta(0, { type: "text_delta", text: "Buy" }, "u1"),
  stop(0, "u1"),
  { type: "message_stop", message_id: "u1", stop_reason: "end_turn" },
  { type: "run_status", status: "running", pending: [] },
  { type: "message_start", message_id: "m1", role: "assistant" },
  start(0, { type: "thinking" }),
  delta(0, { type: "thinking_delta", thinking: "Hmm" }),
  stop(0),
  start(1, { type: "text" }),
  delta(1, { type: "text_delta", text: "I will " }),
  delta(1, { type: "text_delta", text: "buy." }),
  stop(1),
  start(2, { type: "tool_use", id: "t1", name: "trade" }),
  delta(2, { type: "input_json_delta", partial_json: '{"q":' }),
  delta(2, { type: "input_json_delta", partial_json: "1.10}" }),
  stop(2),
  start(3, {
    type: "approval_request",
    approval_key: "s1_1",
    kind: "approval",
    actions: [{ name: "trade", args: { q: 1 }, tool_use_id: "t1", args_digest: "ab" }],
    review_configs: [{ require_approval: true, timeout: 300, allowed_decisions: ["approve", "reject"] }],
    expires_at: "2026-11-21T00:00:00Z",
  }),
  stop(3),
  { type: "run_status", status: "awaiting_input", pending: ["s1_1"] },
  { type: "approval_resolved", approval_key: "s1_1", resolution: "decided", by: "alice" },
  start(4, { type: "approval_result", approval_key: "s1_1" }),
  delta(4, { decisions: [{ type: "approve" }] }),
  stop(4),
  { type: "run_status", status: "running" },
  start(5, { type: "tool_result", tool_use_id: "t1", name: "trade", status: "success" }),
  delta(5, { content: "done" }),
  stop(5),
  { type: "message_stop", message_id: "m1", stop_reason: "end_turn" },
  { type: "run_status", status: "completed" },
]);

const upTo = (type: string, n = 1) => {
  let at = -1;
  for (let i = 0; i < n; i++) at = turn.findIndex((e, j) => j > at && e.type === type);
  return turn.slice(0, at + 1);
};

describe("fold", () => {
  it("gives messages, blocks, status and the resolved approval", () => {
    const view = run(turn);
    expect(view.messages.map((m) => [m.role, m.blocks.map((b) => b.type)])).toEqual([
      ["user", ["text"]],
      ["assistant", ["thinking", "text", "tool_use", "approval_request", "approval_result", "tool_result"]],
    ]);
    expect(view.messages[1]?.blocks[1]).toMatchObject({ type: "text", text: "I will buy.", open: false });
    expect(view.messages[1]?.blocks[2]).toMatchObject({ json: '{"q":1.10}' });
    expect(view.approvals["s1_1"]).toMatchObject({
      resolution: "decided",
      by: "alice",
      decisions: [{ type: "approve" }],
    });
    expect(view.status).toBe("completed");
    expect(pendingApprovals(view)).toEqual([]);
  });

  it("offers a request only when it is whole", () => {
    const waiting = run(upTo("run_status", 2));
    expect(pendingApprovals(waiting).map((a) => a.approvalKey)).toEqual(["s1_1"]);
    const beforeStop = turn.slice(0, upTo("run_status", 2).length - 2);
    expect(pendingApprovals(run(beforeStop))).toEqual([]);
  });

  it("is unchanged when everything is replayed", () => {
    const once = run(turn);
    expect(run(turn, once)).toEqual(once);
  });

  it("resumes at every point without losing or repeating anything", () => {
    const whole = run(turn);
    for (let cut = 0; cut <= turn.length; cut++) {
      expect(run(rest(turn, cut), run(turn.slice(0, cut))), `cut at ${cut}`).toEqual(whole);
    }
  });

  it("starts an open block over", () => {
    const events = numbered([
      { type: "message_start", message_id: "m1", role: "assistant" },
      start(0, { type: "text" }),
      delta(0, { type: "text_delta", text: "half of i" }),
      start(0, { type: "text" }),
      delta(0, { type: "text_delta", text: "all of it" }),
    ]);
    expect(run(events).messages[0]?.blocks).toMatchObject([{ text: "all of it", open: true }]);
  });

  it("closes blocks that a cancelled turn left open", () => {
    const events = numbered([
      { type: "message_start", message_id: "m1", role: "assistant" },
      start(0, { type: "text" }),
      { type: "message_stop", message_id: "m1", stop_reason: "cancelled" },
    ]);
    expect(run(events).messages[0]).toMatchObject({ open: false, blocks: [{ open: false }] });
  });

  it("marks a timeout, and a cancellation", () => {
    const waiting = upTo("run_status", 2);
    const last = run(waiting).lastSeq;
    const timeout = { ...start(4, { type: "approval_timeout", approval_key: "s1_1" }), session_id: S, seq: last + 1 };
    expect(fold(run(waiting), timeout as never).approvals["s1_1"]?.resolution).toBe("timeout");
    const cancelled = {
      type: "approval_resolved",
      approval_key: "s1_1",
      resolution: "cancelled",
      reason: "taken_back",
      session_id: S,
      seq: last + 1,
    };
    expect(fold(run(waiting), cancelled as never).approvals["s1_1"]).toMatchObject({ resolution: "cancelled", reason: "taken_back" });
  });

  it("keeps a request of a failed turn pending, and knows what was decided before the turn is tried again", () => {
    const decisions = [{ type: "approve" }];
    const more: Loose[] = [
      { type: "message_stop", message_id: "m1", stop_reason: "error" },
      { type: "run_status", status: "failed", pending: ["s1_1"], error: { code: "model_error", message: "down" } },
      { type: "approval_resolved", approval_key: "s1_1", resolution: "decided", by: "alice", decisions },
      { type: "run_status", status: "running" },
      { type: "message_start", message_id: "m2", role: "assistant" },
      start(0, { type: "approval_result", approval_key: "s1_1" }, "m2"),
      delta(0, { decisions }, "m2"),
      stop(0, "m2"),
    ];
    const waiting = upTo("run_status", 2);
    const events = [...waiting, ...numbered([...waiting, ...more] as Loose[]).slice(waiting.length)];
    const after = (n: number) => run(events.slice(0, waiting.length + n));
    expect(pendingApprovals(after(2)).map((a) => a.approvalKey)).toEqual(["s1_1"]);
    expect(after(2)).toMatchObject({ status: "failed", error: { code: "model_error" } });
    expect(after(3).approvals["s1_1"]).toMatchObject({ resolution: "decided", by: "alice", decisions });
    expect(after(4).error).toBeUndefined();
    expect(after(8).approvals["s1_1"]).toMatchObject({ by: "alice", decisions });
  });

  const updated = (update: object) => ({ type: "approval_updated", approval_key: "s1_1", ...update });
  const asked = (key: string, config: object = {}) => ({
    type: "approval_request",
    approval_key: key,
    kind: "approval",
    actions: [{ name: "trade", args: {}, id: "c1", tool_use_id: "t1" }],
    review_configs: [{ role: "admin", ...config }],
  });
  const opening = { type: "message_start", message_id: "m1", role: "assistant" };

  it("keeps what is said about a request, in order, once, also when its block comes again", () => {
    const events = numbered([
      opening,
      start(0, asked("s1_1", { quorum: 3 })),
      stop(0),
      updated({ update: "comment", text: "Ours?", by: "alice" }),
      updated({ update: "approved", approved: 1, quorum: 3, by: "bob" }),
      updated({ update: "reminder" }),
      updated({ update: "approved", approved: 2, quorum: 3, by: "eve" }),
    ]);
    const view = run(events);
    const approval = view.approvals["s1_1"]!;
    expect(approval.updates).toEqual([
      { update: "comment", text: "Ours?", by: "alice" },
      { update: "approved", approved: 1, quorum: 3, by: "bob" },
      { update: "reminder" },
      { update: "approved", approved: 2, quorum: 3, by: "eve" },
    ]);
    expect(approval.resolution).toBeUndefined();
    expect(progress(approval)).toEqual({ approved: 2, quorum: 3, by: ["bob", "eve"] });
    expect(run(events, view)).toEqual(view);
    for (let cut = 0; cut <= events.length; cut++) {
      expect(foldAll(run(events.slice(0, cut)), rest(events, cut))).toEqual(view);
    }
  });

  it("knows whose it is after it was handed on, and on again", () => {
    const events = numbered([
      opening,
      start(0, asked("s1_1")),
      stop(0),
      updated({ update: "reassigned", role: "manager", subject: "carol", by: "bob" }),
      updated({ update: "reassigned", text: "Carol is away", by: "eve" }),
    ]);
    const after = (n: number) => run(events.slice(0, n)).approvals["s1_1"]!;
    expect([assigned(after(3)), decidingRole(after(3))]).toEqual([{}, "admin"]);
    expect(assigned(after(4))).toEqual({ role: "manager", subject: "carol" });
    expect([assigned(after(5)), decidingRole(after(5))]).toEqual([{ role: "manager" }, "manager"]);
    expect(progress(after(5))).toBeUndefined();
  });

  it("says of a request that nobody decided in time who is asked instead, and of the next one why it is asked", () => {
    const events = numbered([
      opening,
      start(0, asked("s1_1")),
      stop(0),
      { type: "approval_resolved", approval_key: "s1_1", resolution: "timeout", by: null },
      start(1, { type: "approval_timeout", approval_key: "s1_1", escalated_to: ["manager"] }),
      stop(1),
      start(2, asked("s1_2", { role: "manager" })),
      stop(2),
    ]);
    const { s1_1, s1_2 } = run(events).approvals;
    expect(s1_1).toMatchObject({ resolution: "timeout", escalatedTo: ["manager"] });
    expect(s1_2).toMatchObject({ escalatedFrom: "s1_1" });
    expect(s1_2?.resolution).toBeUndefined();
  });

  it("keeps blocks in their group, and survives unknown events and blocks", () => {
    const view = run(
      numbered([
        { type: "message_start", message_id: "m1", role: "assistant" },
        { type: "group_start", message_id: "m1", group_id: "g1" },
        start(0, { type: "thinking" }),
        stop(0),
        { type: "group_end", message_id: "m1", group_id: "g1", summary: "Thought" },
        start(1, { type: "hologram" }),
        { type: "something_new" },
      ]),
    );
    expect(view.messages[0]?.blocks).toMatchObject([{ groupId: "g1" }, { type: "unknown", blockType: "hologram" }]);
    expect(view.messages[0]?.blocks[1]).not.toHaveProperty("groupId");
    expect(view.messages[0]?.groups).toEqual({ g1: { id: "g1", summary: "Thought", open: false } });
    expect(view.lastSeq).toBe(7);
  });

  it("reads a question from its delta", () => {
    const view = run(
      numbered([
        { type: "message_start", message_id: "m1", role: "assistant" },
        start(0, { type: "approval_request", approval_key: "s1_1" }),
        delta(0, { action_requests: [{ name: "ask_user_question", args: { questions: [] } }], timeout_seconds: 600 }),
        stop(0),
      ]),
    );
    expect(pendingApprovals(view)).toMatchObject([{ kind: "question", timeoutSeconds: 600 }]);
  });

  it("takes the answers of a question from the news that it is resolved, also when its block comes again", () => {
    const question = [
      { type: "message_start", message_id: "m1", role: "assistant" },
      start(0, { type: "approval_request", approval_key: "s1_1" }),
      delta(0, { action_requests: [{ name: "ask_user_question", args: { questions: [] } }] }),
      stop(0),
    ];
    const resolved = { type: "approval_resolved", approval_key: "s1_1", resolution: "decided", by: "alice" };
    const answers = { "Which?": "This one" };
    const events = numbered([...question, { ...resolved, answers }]);
    expect(run(events).approvals["s1_1"]).toMatchObject({ resolution: "decided", by: "alice", answers });
    expect(run(events, run(events)).approvals["s1_1"]).toMatchObject({ answers });
    expect(run(numbered([...question, resolved])).approvals["s1_1"]?.answers).toBeUndefined();
  });

  it("reads what a call does from its stop", () => {
    const view = run(
      numbered([
        { type: "message_start", message_id: "m1", role: "assistant" },
        start(0, { type: "tool_use", id: "t1", name: "read" }),
        delta(0, { type: "input_json_delta", partial_json: '{"path":"a","tool_content_message":"Reading a"}' }),
        { ...stop(0), tool_content_message: "Reading a" },
      ]),
    );
    const block = view.messages[0]!.blocks[0]!;
    expect(block).toMatchObject({ type: "tool_use", open: false, toolContentMessage: "Reading a" });
    expect(block.type === "tool_use" && toolArgs(block)).toEqual({ path: "a" });
  });

  it("shows what a reviewer says in the middle of a turn where it was said", () => {
    const view = run(
      numbered([
        { type: "message_start", message_id: "m1", role: "assistant" },
        start(0, { type: "text" }),
        stop(0),
        { type: "message_start", message_id: "u2", role: "user" },
        start(0, { type: "text" }, "u2"),
        stop(0, "u2"),
        { type: "message_stop", message_id: "u2", stop_reason: "end_turn" },
        start(1, { type: "text" }),
        stop(1),
        { type: "message_stop", message_id: "m1", stop_reason: "end_turn" },
        { type: "message_start", message_id: "u3", role: "user" },
      ]),
    );
    expect(timeline(view).map((p) => [p.message.id, p.blocks.map((b) => b.index)])).toEqual([
      ["m1", [0]],
      ["u2", [0]],
      ["m1", [1]],
      ["u3", []],
    ]);
  });

  it("never changes a view in place", () => {
    const view = run(turn.slice(0, 12));
    const copy = structuredClone(view);
    run(turn.slice(12), view);
    expect(view).toEqual(copy);
    const whole = foldAll(view, turn.slice(12));
    expect(view).toEqual(copy);
    const wholeCopy = structuredClone(whole);
    foldAll(whole, [{ type: "message_start", session_id: S, seq: 99, message_id: "u9", role: "user" }]);
    expect(whole).toEqual(wholeCopy);
  });

  it("gives the same at once as one by one, wherever it is cut", () => {
    for (let cut = 0; cut <= turn.length; cut++) {
      expect(foldAll(foldAll(emptySession(S), turn.slice(0, cut)), turn.slice(cut))).toEqual(run(turn));
    }
  });
});
