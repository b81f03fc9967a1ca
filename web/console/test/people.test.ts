import { describe, expect, it } from "vitest";
import { emptySession, type ApprovalView, type Decision, type MessageView, type ReviewConfig, type SessionView, type UpdateView } from "@countersign/client";
import { barIn } from "../src/lib/bars.js";
import { handTo } from "../src/lib/handTo.js";
import { barOf, isBarred, mayHand, type Me } from "../src/lib/people.js";

const alice: Me = { name: "alice", roles: ["user"] };
const bob: Me = { name: "bob", roles: ["admin"] };
const nobody: Me = { name: undefined, roles: [] };

function request(n: number, config: ReviewConfig, more: Partial<ApprovalView> = {}): ApprovalView {
  return {
    approvalKey: `s_${n}`,
    sessionId: "s",
    kind: "approval",
    actions: [{ name: "pay", args: {}, id: "c1", tool_use_id: "t1" }],
    reviewConfigs: [config],
    complete: true,
    updates: [],
    ...more,
  };
}

const handed: UpdateView = { update: "reassigned", subject: "carol" };

function view(approvals: ApprovalView[], messages: MessageView[] = []): SessionView {
  return { ...emptySession("s"), approvals: Object.fromEntries(approvals.map((a) => [a.approvalKey, a])), messages };
}

it("may be handed to the roles that the policy names, and back to its own reviewer's", () => {
  const reassign = ["manager"];
  const manager: UpdateView = { update: "reassigned", role: "manager" };
  const of = (config: ReviewConfig, more: Partial<ApprovalView> = {}) => handTo(request(1, { ...config, reassign }, more));
  expect(of({})).toEqual(["manager"]);
  expect(of({ role: "admin" })).toEqual(["manager"]);
  expect(of({ role: "admin" }, { updates: [manager] })).toEqual(["manager", "admin"]);
  expect(of({ role: "legal", level: 2, levels: ["admin", "legal"] }, { updates: [manager] })).toEqual(["manager", "legal"]);
  expect(of({ role: "user", level: 1, levels: ["user", "admin"] })).toEqual(["manager"]);
  expect(of({ role: "user", level: 1, levels: ["user", "admin"] }, { updates: [manager] })).toEqual(["manager", "user"]);
  // Its own role is not known then.
  expect(of({ role: "boss" }, { escalatedFrom: "s_0", updates: [manager] })).toEqual(["manager"]);
});

describe("who may decide", () => {
  const of = (approval: ApprovalView, me: Me, session?: SessionView) => (session ? barIn(session, approval, { me, subject: "alice" }) : barOf(approval, { me, subject: "alice" }));

  it("is the session's owner, or who holds the role, or who it was handed to", () => {
    expect([of(request(1, {}), alice), of(request(1, { role: "user" }), alice), of(request(1, {}), bob)]).toEqual([undefined, undefined, "role"]);
    expect([of(request(1, { role: "admin" }), alice), of(request(1, { role: "admin" }), bob)]).toEqual(["role", undefined]);
    const carols = request(1, { role: "admin" }, { updates: [handed] });
    expect(of(carols, bob)).toBe("role");
    expect(of(carols, { name: "carol", roles: ["admin"] })).toBeUndefined();
    // A holder of the role can take it back.
    expect([bob, alice].map((me) => mayHand(carols, { me, subject: "alice" }))).toEqual([true, false]);
    expect(of(carols, nobody)).toBeUndefined();
  });

  it("is not who asked, where requesters may not approve", () => {
    const config = { role: "admin", not_self: true };
    const both: Me = { name: "alice", roles: ["user", "admin"] };
    expect([of(request(1, config), both), of(request(1, config), bob), of(request(1, config), nobody)]).toEqual(["asked", undefined, "asked"]);
    expect(of(request(1, { not_self: true }), both)).toBeUndefined();
  });

  it("is not who has approved it already, now or at a step before", () => {
    const voted: UpdateView = { update: "approved", approved: 1, quorum: 2, by: "bob" };
    expect(of(request(1, { role: "admin", quorum: 2 }, { updates: [voted] }), bob)).toBe("voted");
    const first = request(1, { role: "admin", level: 1 }, { resolution: "decided", by: "bob", decisions: [{ type: "approve" }] });
    const second = request(2, { role: "admin", level: 2 });
    expect(of(second, bob, view([first, second]))).toBe("step");
    expect(of(second, { name: "eve", roles: ["admin"] }, view([first, second]))).toBeUndefined();
    const other = request(2, { role: "admin" }, { actions: [{ name: "pay", args: {}, id: "c2" }] });
    expect(of(other, bob, view([first, other]))).toBeUndefined();
  });

  it("is who changed it only where requesters may approve, and approvals before a change count no more", () => {
    const edit = { type: "edit" as const, edited_action: { name: "pay", args: {} } };
    for (const not_self of [true, false]) {
      const first = request(1, { role: "admin", level: 1, not_self }, { resolution: "decided", by: "eve", decisions: [{ type: "approve" }] });
      const second = request(2, { role: "admin", level: 2, not_self }, { resolution: "decided", by: "bob", decisions: [edit] });
      const again = request(3, { role: "admin", level: 1, not_self });
      const session = view([first, second, again]);
      expect(of(again, bob, session)).toBe(not_self ? "edited" : undefined);
      expect(of(again, { name: "eve", roles: ["admin"] }, session)).toBeUndefined();
    }
  });

  const lea: Me = { name: "lea", roles: ["lead", "admin"] };
  const approve = { type: "approve" as const };
  const by = (name: string, decision: Decision = approve): Partial<ApprovalView> => ({ resolution: "decided", by: name, decisions: [decision] });

  it("is also who has approved it already, where it is asked about from the first step again", () => {
    const at = (n: number, level: number, more: Partial<ApprovalView> = {}) => request(n, { role: level === 1 ? "lead" : "admin", level }, more);
    const first = at(1, 1, by("lea"));
    // The tool has changed once all had approved it.
    const changed = [first, at(2, 2, by("bob")), at(3, 1)];
    expect(of(changed[2]!, lea, view(changed))).toBeUndefined();
    // Forked while the second step waited.
    const forked = [first, at(2, 2, { resolution: "cancelled", by: "alice" }), at(3, 1)];
    expect(of(forked[2]!, lea, view(forked))).toBeUndefined();
    // From there on it counts again.
    const again = [...forked.slice(0, 2), at(3, 1, by("bob")), at(4, 2)];
    expect([of(again[3]!, lea, view(again)), of(again[3]!, bob, view(again))]).toEqual([undefined, "step"]);
    // There is one step, which is the owner's.
    const own = [request(1, {}, by("alice")), request(2, {})];
    expect(of(own[1]!, alice, view(own))).toBeUndefined();
    // The list has a request that the session's events do not have yet.
    expect(of(own[1]!, alice, view(own.slice(0, 1)))).toBeUndefined();
  });

  it("is not who has approved it at a step before, where the step between was put off or nobody decided in time", () => {
    for (const between of [by("eve", { type: "defer" }), { resolution: "timeout" as const }]) {
      const requests = [request(1, { role: "lead", level: 1 }, by("lea")), request(2, { role: "admin", level: 2 }, between), request(3, { role: "admin", level: 2 })];
      expect(of(requests[2]!, lea, view(requests))).toBe("step");
    }
  });

  it("is not who has let it run again, as long as it is the same time that its outcome is unknown", () => {
    const lost = (n: number, level: number, more: Partial<ApprovalView> = {}) => request(n, { role: level === 1 ? "lead" : "admin", level }, { kind: "in_doubt", ...more });
    const bar = (...requests: ApprovalView[]) => of(requests.at(-1)!, lea, view(requests));
    const approved = [request(1, { role: "lead", level: 1 }, by("lea")), request(2, { role: "admin", level: 2 }, by("bob"))];
    // What was approved before it began does not count, and the last step is asked first.
    expect(bar(...approved, lost(3, 2))).toBeUndefined();
    expect(bar(...approved, lost(3, 2, by("lea")), lost(4, 1))).toBe("voted");
    expect(bar(...approved, lost(3, 2, by("lea")), lost(4, 1, by("bob")), lost(5, 2))).toBeUndefined();
    expect(bar(...approved, lost(3, 2, by("lea")), lost(4, 1), lost(5, 2))).toBeUndefined();
    expect(bar(lost(1, 1, by("lea")), lost(2, 1))).toBeUndefined();
  });

  it("is nobody who has ever changed the call, where requesters may not approve, however often it was changed since", () => {
    const edit = { type: "edit" as const, edited_action: { name: "pay", args: {} } };
    const config = { role: "admin", not_self: true };
    const requests = [request(1, config, by("lea", edit)), request(2, config, by("bob", edit)), request(3, config)];
    const people = [lea, bob, { name: "eve", roles: ["admin"] }];
    expect(people.map((me) => of(requests[2]!, me, view(requests)))).toEqual(["edited", "edited", undefined]);
    // Also once it is asked about from the start.
    const later = [...requests.slice(0, 2), request(3, config, by("eve")), request(4, config)];
    expect(people.map((me) => of(later[3]!, me, view(later)))).toEqual(["edited", "edited", undefined]);
  });

  it("is nobody whose words the model has read in the turn before the call", () => {
    const config = { role: "admin", not_self: true };
    const said = (id: string, seq: number, by: string): MessageView => ({ id, role: "user", by, seq, blocks: [], groups: {}, open: false });
    const agent: MessageView = {
      id: "m",
      role: "assistant",
      seq: 2,
      blocks: [
        { index: 0, seq: 10, open: false, type: "tool_use", id: "t1", name: "pay", json: "{}" },
        { index: 1, seq: 20, open: false, type: "approval_request", approvalKey: "s_1" },
      ],
      groups: {},
      open: true,
    };
    const earlier: MessageView = { ...agent, id: "before", seq: 0, blocks: [], open: false, stopReason: "end_turn" };
    const asked = request(1, config);
    for (const [messages, bar] of [
      [[said("u", 1, "alice"), agent, said("c", 9, "bob")], "spoke"],
      [[said("u", 1, "alice"), agent, said("c", 15, "bob")], undefined],
      [[said("c", -1, "bob"), earlier, said("u", 1, "alice"), agent], undefined],
    ] as const) {
      expect(of(asked, bob, view([asked], [...messages]))).toBe(bar);
    }
    // A person who has changed it may not change it again either.
    const edited = request(0, config, { resolution: "decided", by: "bob", decisions: [{ type: "edit", edited_action: { name: "pay", args: {} } }] });
    expect(of(asked, bob, view([edited, asked], [said("u", 1, "bob"), agent]))).toBe("spoke");
  });

  it("is nobody who told the model something in a decision or an answer of the turn before the call", () => {
    const call = (seq: number) => ({ index: seq, seq, open: false, type: "tool_use" as const, id: "t1", name: "pay", json: "{}" });
    const asks = (seq: number, approvalKey: string) => ({ index: seq, seq, open: false, type: "approval_request" as const, approvalKey });
    const decides = (seq: number) => ({ index: seq, seq, open: false, type: "approval_result" as const, approvalKey: "s_0", decisions: [] });
    const agent = (...blocks: MessageView["blocks"]): MessageView => ({ id: "m", role: "assistant", seq: 2, blocks, groups: {}, open: true });
    const asked = request(1, { role: "admin", not_self: true });
    const said = (more: Partial<ApprovalView>, made = 10) => {
      const earlier = request(0, {}, { resolution: "decided", by: "bob", actions: [{ name: "look", args: {}, id: "c0" }], ...more });
      const result = earlier.kind === "question" ? [] : [decides(6)];
      return of(asked, bob, view([earlier, asked], [agent(asks(4, "s_0"), ...result, call(made), asks(20, "s_1"))]));
    };
    const edit = { type: "edit" as const, edited_action: { name: "look", args: { at: 2 } } };
    for (const words of [
      { decisions: [{ type: "reject" as const, message: "buy less" }] },
      { decisions: [edit] },
      { decisions: [{ type: "respond" as const, output: "42" }] },
      { kind: "question" as const, answers: { "Which?": "A" } },
      { kind: "question" as const, decisions: [{ type: "reject" as const, message: "ask me later" }] },
      { kind: "interrupt" as const, resume: null },
    ]) {
      expect([said(words), said({ ...words, by: "eve" }), said(words, 3)]).toEqual(["spoke", undefined, undefined]);
    }
    expect([said({ decisions: [{ type: "approve" }] }), said({ decisions: [{ type: "reject" }] })]).toEqual([undefined, undefined]);
  });

  it("leaves a rejection to everybody but those who may not decide at all", () => {
    const barred = (["role", "asked", "spoke", "step", "edited", "voted", undefined] as const).map((bar) =>
      (["approve", "edit", "respond", "reject"] as const).filter((choice) => isBarred(bar, choice)).join(" "),
    );
    expect(barred).toEqual([
      "approve edit respond reject",
      "approve edit respond",
      "approve edit respond",
      "approve edit respond",
      "approve respond",
      "approve",
      "",
    ]);
  });
});
