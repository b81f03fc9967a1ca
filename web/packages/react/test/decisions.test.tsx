// @vitest-environment jsdom
import { act } from "react";
import { describe, expect, it, vi } from "vitest";
import { CountersignError, type ApprovalView, type DecisionType } from "@countersign/client";
import { emptyCall, useDecisions, useReply, type CallDraft, type CardReply, type Deciding } from "../src/index.js";
import { request, show } from "./page.js";

interface Marked extends CallDraft {
  /** A page's own. */
  mark?: string;
}

let deciding: Deciding<Marked>;
interface Props {
  approval: ApprovalView;
  onReply?: (one: ApprovalView, reply: CardReply) => Promise<unknown>;
  barred?: (choice: DecisionType) => boolean;
}
function Card({ approval, onReply = async () => {}, ...may }: Props) {
  const replying = useReply(approval, onReply);
  deciding = useDecisions<Marked>({ approval, replying, ...may });
  return <p>{replying.state}</p>;
}

const long = "word ".repeat(1000);
const two = (more: Partial<ApprovalView> = {}) =>
  request({
    actions: [
      { name: "pay", args: { n: 1 }, digest: "d1" },
      { name: "mail", args: { text: long }, digest: "d2" },
    ],
    reviewConfigs: ["a", "b"].map(() => ({ allowed_decisions: ["approve", "reject", "edit"] as const })) as never,
    ...more,
  });
const set = (i: number, change: Partial<Marked>) => act(async () => deciding.setCall(i, { ...deciding.calls[i]!, ...change }));
const lacks = () => deciding.calls.map((_, i) => deciding.lacks(i));
const raw = (text: string) => ({ tab: "json" as const, texts: {}, raw: text });

describe("useDecisions", () => {
  it("u2: says of each call what keeps it from being sent, and sends nothing before", async () => {
    const onReply = vi.fn().mockResolvedValue(undefined);
    const barred = vi.fn((_: DecisionType) => false);
    const { draw } = await show(<Card approval={two()} onReply={onReply} barred={barred} />);
    const send = async () => act(async () => void expect(await deciding.send()).toBe(onReply.mock.calls.length > 0));
    expect(lacks()).toEqual(["choice", "choice"]);
    await send();
    await set(0, { choice: "edit", edit: raw("{") });
    await set(1, { choice: "approve" });
    expect([lacks(), deciding.decisions.map((one) => one?.type)]).toEqual([["edit", "sight"], [undefined, "approve"]]);
    await send();
    await set(0, { edit: raw('{"n": 2}') });
    expect(lacks()).toEqual([undefined, "sight"]);
    await send();
    // A person who rejects need not have seen it all.
    expect(deciding.lacks(1, { ...emptyCall, choice: "reject" })).toBeUndefined();
    await act(async () => deciding.onSeen(1));
    expect(lacks()).toEqual([undefined, undefined]);
    barred.mockImplementation((choice) => choice === "edit");
    await draw(<Card approval={two()} onReply={onReply} barred={barred} />);
    expect(lacks()).toEqual(["barred", undefined]);
    // An edit that changes nothing counts as an approval.
    expect(deciding.lacks(0, { ...emptyCall, choice: "edit", edit: raw('{"n": 1}') })).toBeUndefined();
    await send();
    expect(onReply).not.toHaveBeenCalled();
    barred.mockReturnValue(false);
    await draw(<Card approval={two()} onReply={onReply} barred={() => false} />);
    await act(async () => deciding.setComment(" Be quick "));
    await act(async () => void expect(await deciding.send()).toBe(true));
    expect(onReply.mock.calls[0]![1]).toEqual({
      decisions: [
        { type: "edit", edited_action: { name: "pay", args: { n: 2 } }, digest: "d1" },
        { type: "approve", digest: "d2" },
      ],
      user_edit_content: "Be quick",
    });
    expect(sessionStorage.length).toBe(0);
    await act(async () => void expect(await deciding.send()).toBe(false));
    expect(onReply).toHaveBeenCalledTimes(1);
  });

  it("u2: keeps each of several changes in one event, and sends what they have left", async () => {
    const onReply = vi.fn().mockResolvedValue(undefined);
    await show(<Card approval={two()} onReply={onReply} />);
    const reject = (reason: string) => ({ ...emptyCall, choice: "reject" as const, reason });
    await act(async () => {
      deciding.setComment("Both.");
      deciding.setCall(0, reject("a"));
      deciding.setCall(1, reject("b"));
    });
    expect([deciding.comment, deciding.calls.map(({ reason }) => reason)]).toEqual(["Both.", ["a", "b"]]);
    await act(async () => {
      deciding.setComment("Neither.");
      deciding.setCall(0, reject("c"));
      expect(await deciding.send()).toBe(true);
    });
    expect(onReply.mock.calls[0]![1]).toMatchObject({ decisions: [{ message: "c" }, { message: "b" }], user_edit_content: "Neither." });
  });

  it("u2: counts what was entered, and seen, for nothing but what is shown", async () => {
    const { draw } = await show(<Card approval={two()} />);
    await set(0, { choice: "approve", mark: "x" });
    await act(async () => deciding.onSeen(1));
    expect([deciding.calls[0], deciding.isSeen(1)]).toEqual([{ ...emptyCall, choice: "approve", mark: "x" }, true]);
    await draw(<Card approval={two({ digest: "d9" })} />);
    expect([deciding.calls[0], deciding.isSeen(1)]).toEqual([emptyCall, false]);
    // A reload keeps the input, but not which parts were seen.
    await draw(<p />);
    await draw(<Card approval={two()} />);
    expect([deciding.calls[0]?.mark, deciding.isSeen(1)]).toEqual(["x", false]);
  });

  it("u2: sends what is given instead of what is entered, and begins anew after one approval of several", async () => {
    const onReply = vi.fn().mockResolvedValue(undefined);
    const approval = request({ reviewConfigs: [{ allowed_decisions: ["approve"], quorum: 2 }] });
    await show(<Card approval={approval} onReply={onReply} />);
    await set(0, { choice: "reject", reason: "no" });
    const approve = { ...emptyCall, choice: "approve" as const, always: { scope: "session" as const } };
    await act(async () => void expect(await deciding.send([approve])).toBe(true));
    expect(onReply.mock.calls[0]![1]).toEqual({ decisions: [{ type: "approve", always: { scope: "session" }, digest: "d1", args_digest: "a1" }] });
    expect(deciding.calls).toEqual([emptyCall]);
  });

  it("u2: says which call the server has refused an edit of, until that is changed", async () => {
    const errors = [{ pointer: "/decisions/1/edited_action/args/text", message: "too long" }];
    const onReply = vi.fn().mockRejectedValue(new CountersignError("invalid_edit", "no", { details: { errors } }));
    await show(<Card approval={two()} onReply={onReply} />);
    await act(async () => deciding.onSeen(1));
    await set(0, { choice: "approve" });
    await set(1, { choice: "edit", edit: raw('{"text": "x"}') });
    await act(async () => void expect(await deciding.send()).toBe(false));
    const said = () => [deciding.problemsOf(0).length, deciding.problemsOf(1).length, deciding.problems.map(({ what, message }) => `${what}: ${message}`)];
    expect(said()).toEqual([0, 1, ["text: too long"]]);
    await set(1, { reason: "typed" });
    expect(said()).toEqual([0, 1, ["text: too long"]]);
    await set(1, { edit: raw('{"text": ""}') });
    expect(said()).toEqual([0, 0, []]);
  });
});
