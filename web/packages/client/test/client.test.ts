import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { CountersignError, type ConnectionState } from "../src/index.js";
import { backoffMs } from "../src/backoff.js";
import { approvalFromBlock } from "../src/fold.js";
import { FakeSocket, blockStart, event, last, make, seen } from "./support/socket.js";

beforeEach(() => {
  FakeSocket.all = [];
  vi.useFakeTimers();
});
afterEach(() => void vi.useRealTimers());

describe("u2: CountersignClient", () => {
  it("offers the subprotocol, and the token as a second one", () => {
    make({ token: "abc" }).connect();
    expect(last().protocols).toEqual(["countersign.v1", "bearer.abc"]);
  });

  it("resolves a request on its ack and rejects it on its error", async () => {
    const client = make();
    client.connect();
    last().hello();
    const good = client.sendMessage({ session_id: "s", content: "hi" });
    last().receive({ type: "ack", request_id: last().sent.at(-1)!.request_id, session_id: "s" });
    await expect(good).resolves.toMatchObject({ session_id: "s" });

    const bad = client.sendApproval({ session_id: "s", approval_key: "s_1", decisions: [{ type: "approve" }] });
    last().receive({
      type: "error",
      code: "approval_already_resolved",
      message: "too late",
      request_id: last().sent.at(-1)!.request_id,
      details: { by: "bob" },
    });
    const error = await bad.catch((e: unknown) => e);
    expect(error).toBeInstanceOf(CountersignError);
    expect(error).toMatchObject({ code: "approval_already_resolved", details: { by: "bob" } });
  });

  it("sends nothing in the name of who the server greets, where a listener closes the connection", async () => {
    const client = make();
    client.on("hello", () => client.close());
    client.subscribe("s");
    client.connect();
    const sent = client.sendMessage({ session_id: "s", content: "hi" });
    last().hello();
    expect(last().sent).toEqual([]);
    await expect(sent).rejects.toMatchObject({ code: "closed" });
  });

  it("sends once what a listener asks for when the server greets, and all of it where one throws", () => {
    const client = make();
    client.on("hello", () => void client.sendMessage({ session_id: "s", content: "hi" }));
    client.on("hello", () => {
      throw new Error("Mine.");
    });
    client.subscribe("s");
    client.connect();
    const report = vi.fn();
    vi.stubGlobal("reportError", report);
    last().hello();
    vi.unstubAllGlobals();
    expect(report).toHaveBeenCalledExactlyOnceWith(new Error("Mine."));
    expect(last().sent.map(({ type }) => type)).toEqual(["subscribe", "message"]);
  });

  it("never passes over events: where some are missing, it follows again from the last one before", () => {
    const client = make();
    const seqs = seen(client);
    client.subscribe("s", 100);
    client.connect();
    last().hello();
    // The server follows the session for a reply, before it has read the subscription.
    last().receive(event(151));
    last().receive(event(152));
    last().receive({ type: "content_block_delta", session_id: "s", message_id: "m", index: 0, delta: { type: "text_delta", text: "x" } });
    expect(seqs).toEqual([]);
    expect(last().sent.filter(({ type }) => type === "subscribe")).toEqual([
      { type: "subscribe", session_id: "s", after: 100 },
      { type: "subscribe", session_id: "s", after: 100 },
    ]);
    for (const one of [event(101), blockStart(102), event(103)]) last().receive(one);
    // The start of a block that continues.
    last().receive(blockStart(102));
    expect(seqs).toEqual([101, 102, 103, 102]);
  });

  it("begins again where the end of a session begins, if events for a reply were still on their way", () => {
    const client = make();
    const seqs: (number | string)[] = seen(client);
    client.on("restarted", (id) => void seqs.push(`restarted ${id}`));
    client.connect();
    last().hello();
    client.subscribe("s", { last: 80 });
    for (const one of [event(151), event(152), blockStart(90), event(91)]) last().receive(one);
    expect(seqs).toEqual([151, 152, "restarted s", 90, 91]);
    // A block that continues starts once more after a reconnect.
    last().receive(blockStart(90));
    expect(seqs).toHaveLength(6);
  });

  it("goes on at a seq that is known, and at a block that starts once more", () => {
    const client = make();
    const seqs: (number | string)[] = seen(client);
    client.on("restarted", (id) => void seqs.push(`restarted ${id}`));
    client.connect();
    last().hello();
    client.subscribe("s", { last: 80, after: 100 });
    expect(last().sent).toEqual([{ type: "subscribe", session_id: "s", after: 100 }]);
    for (const one of [blockStart(98), event(101), blockStart(98)]) last().receive(one);
    expect(seqs).toEqual([98, 101, 98]);
  });

  it("takes a second greeting on a connection as news of who it is of, and sends nothing again", () => {
    const client = make();
    const roles: unknown[] = [];
    const states: ConnectionState[] = [];
    client.on("hello", (hello) => void roles.push(hello.roles));
    client.on("state", (state) => void states.push(state));
    client.subscribe("s", 7);
    client.connect();
    last().hello();
    void client.sendMessage({ session_id: "s", content: "hi" });
    expect(last().sent.map(({ type }) => type)).toEqual(["subscribe", "message"]);
    last().receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 10, subject: "ann", roles: ["lead"] });
    last().receive(event(8));
    expect([roles, states]).toEqual([[undefined, ["lead"]], ["connecting", "open"]]);
    expect(last().sent).toHaveLength(2);
    expect(client.unsent).toBe(1);
  });

  it("goes on with a token that was renewed while it was looked why the last connection failed", async () => {
    let answer = (_: boolean): void => undefined;
    const client = make({ token: "old", isUnauthorized: () => new Promise<boolean>((resolve) => (answer = resolve)) });
    client.connect();
    last().die();
    client.setToken("new");
    answer(true);
    await vi.advanceTimersByTimeAsync(1000);
    expect(client.state).toBe("reconnecting");
    expect(last().protocols).toEqual(["countersign.v1", "bearer.new"]);
  });

  it("is not told of a session that it replies in and does not follow, and takes no room at the server for it", async () => {
    const client = make();
    const seqs = seen(client);
    client.connect();
    last().hello();
    const done = client.sendApproval({ session_id: "s", approval_key: "s_1", decisions: [{ type: "approve" }] });
    last().receive(event(151));
    last().receive({ type: "ack", request_id: last().sent.at(-1)!.request_id, session_id: "s" });
    await done;
    expect(seqs).toEqual([]);
    expect(last().sent.at(-1)).toEqual({ type: "unsubscribe", session_id: "s" });
  });

  it("follows what the connection had no room for, once an unsubscribe makes room", () => {
    const client = make();
    client.connect();
    last().hello();
    for (const id of ["a", "b", "c", "d"]) client.subscribe(id, { last: 80 });
    const full = (session_id: string) => last().receive({ type: "error", code: "too_many_followed", message: "at most 2 sessions", session_id });
    full("c");
    full("d");
    last().sent.length = 0;
    client.unsubscribe("a");
    expect(last().sent).toEqual([{ type: "unsubscribe", session_id: "a" }, { type: "subscribe", session_id: "c", last: 80 }]);
    // If there was no room after all, it keeps waiting.
    full("c");
    // Nor does a reply keep the room that it takes for a moment.
    void client.sendApproval({ session_id: "e", approval_key: "e_1", decisions: [{ type: "approve" }] });
    last().receive({ type: "ack", request_id: last().sent.at(-1)!.request_id, session_id: "e" });
    expect(last().sent.slice(3)).toEqual([{ type: "unsubscribe", session_id: "e" }, { type: "subscribe", session_id: "c", last: 80 }]);
    client.unsubscribe("d");
    client.unsubscribe("b");
    expect(last().sent.slice(5)).toEqual([{ type: "unsubscribe", session_id: "d" }, { type: "unsubscribe", session_id: "b" }]);
  });

  it("tries again to follow what cannot be followed for the moment, once a second", () => {
    const client = make();
    client.subscribe("s", 7);
    client.connect();
    last().hello();
    const refused = { type: "error", code: "store_unavailable", message: "away", session_id: "s" };
    last().receive(refused);
    last().receive(refused);
    vi.advanceTimersByTime(1100);
    expect(last().sent).toHaveLength(2);
    expect(last().sent.at(-1)).toEqual({ type: "subscribe", session_id: "s", after: 7 });
    client.unsubscribe("s");
    last().receive(refused);
    vi.advanceTimersByTime(1100);
    expect(last().sent).toHaveLength(3);
  });

  it("asks for a session that is not there with growing pauses, tells that once, and follows it once it has been made", () => {
    const client = make();
    const seqs = seen(client);
    const errors = vi.fn();
    client.on("error", errors);
    client.connect();
    last().hello();
    client.subscribe("s", { last: 80 });
    const refuse = () => last().receive({ type: "error", code: "session_not_found", message: "no", session_id: "s" });
    const asked = () => last().sent.filter(({ type }) => type === "subscribe").length;
    refuse();
    const pauses: number[] = [];
    for (let n = 1; n <= 6; n++) {
      let ms = 0;
      while (asked() === n) vi.advanceTimersByTime((ms += 1) && 1);
      pauses.push(ms);
      refuse();
    }
    for (const [i, most] of [1000, 2000, 4000, 8000, 10_000, 10_000].entries()) {
      expect([pauses[i]! >= most / 2, pauses[i]! <= most], `pause ${i} of ${pauses}`).toEqual([true, true]);
    }
    expect([errors.mock.calls.length, last().sent.at(-1)]).toEqual([1, { type: "subscribe", session_id: "s", last: 80 }]);
    last().receive(event(1));
    vi.advanceTimersByTime(10_000);
    expect([seqs, asked()]).toEqual([[1], 7]);
    // And if it is missing once more, from the first pause on.
    last().receive({ type: "error", code: "session_not_found", message: "no", session_id: "s" });
    expect(errors.mock.calls.length).toBe(1);
    refuse();
    expect(errors.mock.calls.length).toBe(2);
  });

  it("asks for a session that is not there no longer than it is to be followed, nor once it is closed", () => {
    const client = make();
    client.connect();
    last().hello();
    for (const id of ["a", "b"]) {
      client.subscribe(id);
      last().receive({ type: "error", code: "session_not_found", message: "no", session_id: id });
    }
    client.unsubscribe("a");
    client.close();
    expect(vi.getTimerCount()).toBe(0);
    client.connect();
    last().hello();
    expect(last().sent).toEqual([{ type: "subscribe", session_id: "b", after: 0 }]);
    last().receive({ type: "error", code: "session_not_found", message: "no", session_id: "b" });
    vi.advanceTimersByTime(3000);
    expect(last().sent.length).toBe(2);
  });

  it("sends nothing in the name of whoever comes next, if the server refuses the token", async () => {
    const client = make({ token: "alice", isUnauthorized: () => Promise.resolve(true) });
    client.connect();
    last().hello();
    last().die();
    const sent = client.sendApproval({ session_id: "s", approval_key: "s_1", decisions: [{ type: "approve" }] });
    const refused = expect(sent).rejects.toMatchObject({ code: "unauthenticated" });
    await vi.advanceTimersByTimeAsync(200);
    last().die();
    await vi.advanceTimersByTimeAsync(0);
    await refused;
    expect(client.state).toBe("unauthorized");
    client.setToken("bob");
    last().hello();
    expect(last().protocols).toEqual(["countersign.v1", "bearer.bob"]);
    expect(last().sent).toEqual([]);
  });

  it("has one connection, also if another attempt was asked for while it was looked why the last one failed", async () => {
    let answer = (_: boolean): void => undefined;
    const client = make({ isUnauthorized: () => new Promise<boolean>((resolve) => (answer = resolve)) });
    client.connect();
    last().die();
    client.retryNow();
    const sockets = FakeSocket.all.length;
    last().hello();
    answer(false);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(FakeSocket.all).toHaveLength(sockets);
    expect(last().closed).toBe(false);
  });

  it("follows a session from near its end, and after a reconnect from where it is", () => {
    const client = make();
    client.subscribe("s", { last: 80 });
    client.connect();
    last().hello();
    expect(last().sent).toEqual([{ type: "subscribe", session_id: "s", last: 80 }]);
    // Nothing has come before the connection is lost.
    last().die();
    vi.advanceTimersByTime(200);
    last().hello();
    expect(last().sent).toEqual([{ type: "subscribe", session_id: "s", last: 80 }]);
    last().receive({ type: "message_start", session_id: "s", message_id: "msg-9", role: "user", seq: 41 });
    last().die();
    vi.advanceTimersByTime(400);
    last().hello();
    expect(last().sent).toEqual([{ type: "subscribe", session_id: "s", after: 41 }]);
  });

  it("sends answers, and says who was first", async () => {
    const client = make();
    client.connect();
    last().hello();
    const answers = { "Which?": ["A", "B"], "When?": "[No preference]" };
    const sent = client.sendApproval({ session_id: "s", approval_key: "s_1", answers });
    const frame = last().sent.at(-1)!;
    expect(frame).toEqual({ type: "approval", session_id: "s", approval_key: "s_1", answers, request_id: frame.request_id });
    const details = { resolution: "decided", answers: { "Which?": "C", "When?": "Now" }, by: "bob" };
    last().receive({ type: "error", code: "approval_already_resolved", message: "", request_id: frame.request_id, details });
    await expect(sent).rejects.toMatchObject({ code: "approval_already_resolved", details });
  });

  it("replies with the digest of what was shown", async () => {
    const client = make();
    client.connect();
    last().hello();
    const asked = { type: "approval_request", approval_key: "s_1" } as const;
    const actions = approvalFromBlock({ ...asked, actions: [{ name: "pay", args: {}, digest: "aa" }] }, "s");
    const decisions = [{ type: "approve" as const, digest: "aa" }];
    const questions = approvalFromBlock({ ...asked, kind: "question", digest: "bb" }, "s");
    const old = approvalFromBlock({ ...asked, actions: [{ name: "pay", args: {} }] }, "s");
    void client.reply(actions, { decisions });
    expect(last().sent.at(-1)).toMatchObject({ type: "approval", session_id: "s", approval_key: "s_1", decisions, digest: "aa" });
    void client.reply(questions, { answers: { Q: "A" } });
    expect(last().sent.at(-1)).toMatchObject({ answers: { Q: "A" }, digest: "bb" });
    void client.reply(old, { decisions: [{ type: "approve" }] });
    expect(last().sent.at(-1)).not.toHaveProperty("digest");
  });

  it("follows its sessions again from the last seq after a reconnect", async () => {
    const client = make();
    client.connect();
    last().hello();
    client.subscribe("s", 0);
    last().receive({ type: "run_status", session_id: "s", seq: 1, status: "running" });
    last().receive({ type: "run_status", session_id: "s", seq: 2, status: "completed" });
    last().die();
    await vi.advanceTimersByTimeAsync(100);
    expect(FakeSocket.all).toHaveLength(2);
    last().hello();
    expect(last().sent).toEqual([{ type: "subscribe", session_id: "s", after: 2 }]);
  });

  it("sends what was not acknowledged again, under the same request_id, and only that", async () => {
    const client = make();
    client.connect();
    last().hello();
    client.subscribe("s");
    const first = client.sendApproval({ session_id: "s", approval_key: "s_1", decisions: [{ type: "approve" }] });
    const sent = last().sent.at(-1)!;
    last().die();
    await vi.advanceTimersByTimeAsync(100);
    expect(client.unsent).toBe(1);
    last().hello();
    expect(last().sent.at(-1)).toEqual(sent);
    last().receive({ type: "ack", request_id: sent.request_id, session_id: "s" });
    await first;
    expect(client.unsent).toBe(0);
    last().die();
    await vi.advanceTimersByTimeAsync(100);
    last().hello();
    expect(last().sent.map((f) => f.type)).toEqual(["subscribe"]);
  });

  it("gets the events of a new session whose first message was acknowledged on a lost connection", async () => {
    const client = make();
    client.connect();
    last().hello();
    void client.sendMessage({ content: "hi" });
    const message = last().sent[0]!;
    expect(message.session_id).toEqual(expect.any(String));
    last().die();
    await vi.advanceTimersByTimeAsync(100);
    last().hello();
    // Not subscribed to before the message: the server may not know the session yet.
    expect(last().sent).toEqual([message]);
    last().receive({ type: "ack", request_id: message.request_id, session_id: message.session_id });
    expect(last().sent.at(-1)).toEqual({ type: "subscribe", session_id: message.session_id, after: 0 });
  });

  it("waits longer after each failure, and starts afresh after a success", async () => {
    make().connect();
    for (const pause of [100, 200, 400]) {
      const before = FakeSocket.all.length;
      last().die();
      await vi.advanceTimersByTimeAsync(pause - 1);
      expect(FakeSocket.all).toHaveLength(before);
      await vi.advanceTimersByTimeAsync(1);
      expect(FakeSocket.all).toHaveLength(before + 1);
    }
    // A greeting alone does not count: otherwise a server that greets and closes would be contacted without a pause.
    last().hello();
    await vi.advanceTimersByTimeAsync(9_999);
    last().die();
    await vi.advanceTimersByTimeAsync(799);
    expect(FakeSocket.all).toHaveLength(4);
    await vi.advanceTimersByTimeAsync(1);
    expect(FakeSocket.all).toHaveLength(5);
    last().hello();
    await vi.advanceTimersByTimeAsync(10_000);
    last().die();
    await vi.advanceTimersByTimeAsync(100);
    expect(FakeSocket.all).toHaveLength(6);
  });

  it("pings, and gives up a connection that does not answer", async () => {
    const states: ConnectionState[] = [];
    const client = make();
    client.on("state", (s) => states.push(s));
    client.connect();
    const first = last();
    first.hello();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(first.sent).toEqual([{ type: "ping" }]);
    first.receive({ type: "pong" });
    await vi.advanceTimersByTimeAsync(10_000);
    expect(first.closed).toBe(false);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(first.closed).toBe(true);
    expect(states).toContain("reconnecting");
  });

  it("pings no more often where the server says a time that no timer has", async () => {
    const client = make();
    client.connect();
    last().receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 4294967295 });
    await vi.advanceTimersByTimeAsync(60_000);
    expect([last().sent, client.state]).toEqual([[], "open"]);
    client.close();
  });

  it("keeps a connection that does not answer yet because a large request is still being sent", async () => {
    const client = make();
    client.connect();
    const first = last();
    first.hello();
    vi.spyOn(first, "send").mockImplementation(() => void (first.bufferedAmount += 1000));
    void client.sendMessage({ session_id: "s", content: "large" }).catch(() => undefined);
    await vi.advanceTimersByTimeAsync(10_000);
    // The request has 1000 bytes, and the ping behind it as many.
    for (const left of [1900, 1500, 1100]) {
      first.bufferedAmount = left;
      await vi.advanceTimersByTimeAsync(10_000);
      expect(first.closed).toBe(false);
    }
    // What is added meanwhile does not hide that something was sent.
    void client.sendMessage({ session_id: "t", content: "small" }).catch(() => undefined);
    first.bufferedAmount -= 50;
    await vi.advanceTimersByTimeAsync(10_000);
    expect([first.closed, first.bufferedAmount]).toEqual([false, 2050]);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(first.closed).toBe(true);
  });

  it("gives up a connection on which nothing comes, although what is sent is taken", async () => {
    const client = make();
    client.connect();
    const first = last();
    first.hello();
    // As the system does that has not noticed: it takes what is sent a moment later.
    vi.spyOn(first, "send").mockImplementation(() => {
      first.bufferedAmount += 50;
      setTimeout(() => (first.bufferedAmount -= 50), 0);
    });
    await vi.advanceTimersByTimeAsync(10_000);
    client.subscribe("s");
    await vi.advanceTimersByTimeAsync(9_999);
    expect(first.closed).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(first.closed).toBe(true);
  });

  it("gives up a connection that opens and is not greeted, and tries again", async () => {
    const client = make();
    client.connect();
    const silent = last();
    silent.onopen?.();
    await vi.advanceTimersByTimeAsync(19_999);
    expect([silent.closed, client.state]).toEqual([false, "connecting"]);
    await vi.advanceTimersByTimeAsync(101);
    expect([silent.closed, client.state, FakeSocket.all.length]).toEqual([true, "reconnecting", 2]);
    last().hello();
    await vi.advanceTimersByTimeAsync(15_000);
    last().receive({ type: "pong" });
    await vi.advanceTimersByTimeAsync(9_000);
    expect([last().closed, client.state]).toEqual([false, "open"]);
  });

  it("tries again when it is not told whether the server refuses the token", async () => {
    const client = make({ isUnauthorized: () => new Promise<boolean>(() => {}) });
    client.connect();
    last().die();
    await vi.advanceTimersByTimeAsync(10_100);
    expect([FakeSocket.all.length, client.state]).toEqual([2, "reconnecting"]);
  });

  it("asks for a token when the server refuses, and goes on with the new one", async () => {
    const client = make({ isUnauthorized: async (token: string | undefined) => token !== "good" });
    client.connect();
    last().die();
    await vi.advanceTimersByTimeAsync(0);
    expect(client.state).toBe("unauthorized");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeSocket.all).toHaveLength(1);
    client.setToken("good");
    last().hello();
    expect(client.state).toBe("open");
  });

  it("does not come back with a token that is valid no longer, nor sends what waits in the next one's name", async () => {
    const reasons: string[] = [];
    const client = make({ token: "old" });
    client.on("tokenEnded", (reason) => reasons.push(reason));
    client.connect();
    last().hello();
    const unanswered = client.sendApproval({ session_id: "s", approval_key: "s_1", decisions: [{ type: "approve" }] });
    last().onclose?.({ code: 4401, reason: "the token was revoked" });
    await expect(unanswered).rejects.toMatchObject({ code: "unauthenticated", message: "the token was revoked" });
    expect(client.state).toBe("unauthorized");
    expect(reasons).toEqual(["the token was revoked"]);
    client.retryNow();
    client.connect();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeSocket.all).toHaveLength(1);
    client.setToken("new");
    expect(last().protocols).toEqual(["countersign.v1", "bearer.new"]);
    last().hello();
    expect(last().sent).toEqual([]);
  });

  it("refuses at once what would wait for whoever signs in next, and what is closed sends nothing more", async () => {
    const client = make({ token: "alice" });
    client.connect();
    last().hello();
    last().onclose?.({ code: 4401, reason: "the token was revoked" });
    const pressed = client.sendApproval({ session_id: "s", approval_key: "s_1", decisions: [{ type: "approve" }] });
    await expect(pressed).rejects.toMatchObject({ code: "unauthenticated" });
    client.setToken("bob");
    last().hello();
    expect(last().sent).toEqual([]);
    client.close();
    await expect(client.sendMessage({ session_id: "s", content: "Hello" })).rejects.toMatchObject({ code: "closed" });
    expect(client.unsent).toBe(0);
  });

  it("comes back after any other close", async () => {
    const client = make({ token: "good" });
    client.connect();
    last().hello();
    last().onclose?.({ code: 1012, reason: "restart" });
    await vi.advanceTimersByTimeAsync(100);
    expect(last().protocols).toContain("bearer.good");
    expect(FakeSocket.all).toHaveLength(2);
  });

  it("sends comments and hand-overs as requests, which a lost connection repeats", async () => {
    const client = make();
    client.connect();
    last().hello();
    const said = client.comment({ session_id: "s", approval_key: "s_1", text: "Is this ours?" });
    const comment = last().sent.at(-1)!;
    expect(comment).toMatchObject({ type: "comment", session_id: "s", approval_key: "s_1", text: "Is this ours?" });
    const handed = client.reassign({ session_id: "s", approval_key: "s_1", role: "manager", subject: "carol" });
    const reassign = last().sent.at(-1)!;
    expect(reassign).toMatchObject({ type: "reassign", role: "manager", subject: "carol" });
    last().die();
    await vi.advanceTimersByTimeAsync(100);
    last().hello();
    expect(last().sent).toEqual([comment, reassign]);
    last().receive({ type: "ack", request_id: comment.request_id, session_id: "s" });
    last().receive({ type: "error", code: "forbidden", message: "not to \"manager\"", request_id: reassign.request_id });
    await expect(said).resolves.toMatchObject({ session_id: "s" });
    await expect(handed).rejects.toMatchObject({ code: "forbidden" });
  });

  it("settles a cancel, and does not repeat it", async () => {
    const client = make();
    client.connect();
    last().hello();
    const refused = client.cancel("s");
    last().receive({ type: "error", code: "nothing_to_cancel", message: "", request_id: last().sent.at(-1)!.request_id });
    await expect(refused).rejects.toMatchObject({ code: "nothing_to_cancel" });
    const lost = client.cancel("s");
    last().die();
    await expect(lost).rejects.toMatchObject({ code: "offline" });
    await vi.advanceTimersByTimeAsync(100);
    last().hello();
    expect(last().sent).toEqual([]);
  });
});

describe("backoffMs", () => {
  it("grows to its limit and keeps its jitter in the upper half", () => {
    expect(backoffMs(0, { random: () => 0 })).toBe(150);
    expect(backoffMs(0, { random: () => 1 })).toBe(300);
    expect(backoffMs(50, { random: () => 1 })).toBe(10_000);
  });
});
