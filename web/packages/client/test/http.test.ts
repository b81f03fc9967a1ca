import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { CountersignHttp, stringifyJson } from "../src/index.js";

describe("CountersignHttp", () => {
  const answering = (body: object) => {
    const asked: string[] = [];
    const sent: RequestInit[] = [];
    const fetch = ((url: string, init: RequestInit) => {
      asked.push(url);
      sent.push(init);
      return Promise.resolve(new Response(JSON.stringify(body)));
    }) as typeof globalThis.fetch;
    return { asked, sent, http: new CountersignHttp({ fetch }) };
  };

  describe("the server's clock", () => {
    const start = Date.UTC(2027, 0, 1);
    let http: CountersignHttp;
    /** By how much it is ahead of ours, and how long its answer takes once it is written. */
    let [ahead, takes] = [0, 0];
    const fetch = (async () => {
      const date = new Date(Date.now() + ahead).toUTCString();
      vi.setSystemTime(Date.now() + takes);
      return new Response("{}", { headers: { date } });
    }) as typeof globalThis.fetch;
    /** The clock's offset after an answer at this time since the start. */
    const offsetAt = async (ms: number) => {
      vi.setSystemTime(start + ms);
      await http.health();
      return http.clockOffsetMs;
    };
    beforeEach(() => {
      vi.useFakeTimers();
      http = new CountersignHttp({ fetch });
      [ahead, takes] = [60_300, 0];
    });
    afterEach(() => void vi.useRealTimers());

    it("is known better with each answer, and does not jump between them", async () => {
      const offsets: number[] = [];
      for (const ms of [0, 400, 1_650, 3_900, 5_100, 6_700, 8_690]) offsets.push(await offsetAt(ms));
      const errors = offsets.map((offset) => Math.abs(offset - ahead));
      expect(errors[0]).toBeLessThan(500);
      expect(errors.at(-1)).toBeLessThan(10);
      expect(await offsetAt(9_000)).toBe(offsets.at(-1));
    });

    it("is not moved by an answer that takes a minute", async () => {
      const before = await offsetAt(0);
      takes = 60_000;
      expect(await offsetAt(5_000)).toBe(before);
    });

    it("is read anew once a clock was set, and is ours where they hardly differ", async () => {
      await offsetAt(0);
      ahead = -3_600_000;
      expect(Math.abs((await offsetAt(5_000)) - ahead)).toBeLessThan(1000);
      ahead = 700;
      expect(await offsetAt(10_000)).toBe(0);
    });
  });

  describe("on a network that hangs", () => {
    /** No answer; or its beginning only. */
    const hanging = (begun: boolean) =>
      new CountersignHttp({
        timeoutMs: 20,
        fetch: ((_: string, { signal }: RequestInit) => {
          const aborted = new Promise<never>((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
          const body = new ReadableStream({ pull: () => aborted });
          return begun ? Promise.resolve(new Response(body)) : aborted;
        }) as typeof globalThis.fetch,
      });

    it.each([false, true])("counts the server as unreachable after a time (the answer had begun: %s)", async (begun) => {
      await expect(hanging(begun).session("s")).rejects.toMatchObject({ name: "CountersignError", code: "unreachable" });
      // Also where the caller could give up itself.
      const gaveUp = new AbortController();
      await expect(hanging(begun).pending({}, gaveUp.signal)).rejects.toMatchObject({ code: "unreachable" });
      const first = hanging(begun).pending({}, gaveUp.signal);
      gaveUp.abort(new Error("Enough."));
      await expect(first).rejects.toThrow("Enough.");
    });

    it("waits on for what may take any time, until the caller gives up", async () => {
      const [http, gaveUp] = [hanging(false), new AbortController()];
      const endless = [http.sendMessage("s", { content: "hi" }), http.decideAndWait("s_1", {}), http.verifyAudit(), http.auditLines({}, gaveUp.signal)];
      const first = Promise.race(endless);
      await expect(http.session("s")).rejects.toMatchObject({ code: "unreachable" });
      gaveUp.abort(new Error("Enough."));
      await expect(first).rejects.toThrow("Enough.");
    });
  });

  it("says of a token that no request can carry that it is wrong, and does not repeat it", async () => {
    for (const token of ["secret\nmore", "secret\u0000", "secret\u2026", "\nsecret\nmore"]) {
      const http = new CountersignHttp({ baseUrl: "http://127.0.0.1:1", token: () => token });
      const error = await http.health().catch((error: Error) => error);
      expect(error).toMatchObject({ code: "unauthenticated", message: expect.stringContaining("cannot be sent") });
      expect(String(error)).not.toContain("secret");
    }
    // What surrounds it, as the end of a file's line, is no part of it.
    const { sent, http } = answering({});
    await http.health();
    const sender = new CountersignHttp({ token: () => "\ngood/token==\n", fetch: (async (_: string, init: RequestInit) => (sent.push(init), new Response("{}"))) as typeof fetch });
    await sender.health();
    expect(sent.map(({ headers }) => new Headers(headers).get("authorization"))).toEqual([null, "Bearer good/token=="]);
  });

  it("says what an edit would lead to, and why it would be refused", async () => {
    const preview = { kind: "diff", text: "+1.10", left_out: 0 };
    const asks = answering({ outcome: "asks", review_config: { role: "admin" }, preview });
    const edit = { action: 1, edited_action: { name: "pay", args: { n: 2 } } };
    expect(await asks.http.previewEdit("s_1", edit)).toEqual({ outcome: "asks", reviewConfig: { role: "admin" }, preview });
    expect([asks.asked, asks.sent[0]?.body]).toEqual([["/v1/approvals/s_1/preview"], JSON.stringify(edit)]);
    const problem = { status: 400, code: "invalid_edit", detail: "decisions[0]: no", details: { errors: [] } };
    const { outcome, error } = await answering({ outcome: "refused", problem }).http.previewEdit("s_1", edit);
    expect(outcome).toBe("refused");
    expect(error).toMatchObject({ name: "CountersignError", code: "invalid_edit", message: "decisions[0]: no", status: 400, details: { errors: [] } });
  });

  it("reads a history in pages, both ways", async () => {
    const page = { messages: [], has_more: true, next_cursor: "m7" };
    const { asked, http } = answering(page);
    expect(await http.history("s.1")).toEqual(page);
    await http.history("s.1", { direction: "backward", limit: 20 });
    await http.history("s.1", { direction: "backward", limit: 20, cursor: "m7" });
    expect(asked).toEqual([
      "/v1/sessions/s.1/history",
      "/v1/sessions/s.1/history?direction=backward&limit=20",
      "/v1/sessions/s.1/history?direction=backward&limit=20&cursor=m7",
    ]);
  });

  it("lists a question that waits", async () => {
    const { asked, http } = answering({
      next_cursor: "i.1.1.s",
      approvals: [
        {
          type: "approval_request",
          approval_key: "s_1",
          session_id: "s",
          kind: "question",
          action_requests: [{ name: "ask_user_question", args: { questions: [] } }],
          review_configs: [{ action_name: "ask_user_question" }],
          timeout_seconds: 600,
        },
      ],
    });
    const { approvals, next } = await http.pending();
    expect(approvals).toMatchObject([
      { approvalKey: "s_1", kind: "question", complete: true, timeoutSeconds: 600, actions: [{ name: "ask_user_question" }] },
    ]);
    await http.pending({ limit: 200, ...(next === undefined ? {} : { cursor: next }) });
    expect(asked).toEqual(["/v1/approvals?status=waiting", "/v1/approvals?status=waiting&limit=200&cursor=i.1.1.s"]);
  });

  it("reads what was said about a request, and how it ended", async () => {
    const updates = [{ update: "comment", text: "Ours?", by: "alice", at: "2027-01-01T00:00:00Z" }];
    const { asked, http } = answering({
      type: "approval_request",
      approval_key: "s/1_1",
      session_id: "s/1",
      kind: "approval",
      actions: [],
      status: "resolved",
      resolution: "decided",
      by: "bob",
      decisions: [{ type: "approve" }],
      updates,
    });
    expect(await http.approval("s/1_1")).toMatchObject({ complete: true, resolution: "decided", by: "bob", updates });
    expect(asked).toEqual(["/v1/approvals/s%2F1_1"]);
  });

  it("comments and hands over", async () => {
    const { asked, sent, http } = answering({ approval_key: "s_1", session_id: "s", actions: [] });
    await http.comment("s_1", "Ours?", "r1");
    await http.reassign("s_1", { subject: "carol" });
    expect(asked).toEqual(["/v1/approvals/s_1/comments", "/v1/approvals/s_1/reassign"]);
    expect(sent.map((s) => [s.method, JSON.parse(String(s.body))])).toEqual([
      ["POST", { text: "Ours?", request_id: "r1" }],
      ["POST", { subject: "carol" }],
    ]);
    expect(sent[0]?.headers).toMatchObject({ "content-type": "application/json" });
  });

  it("says of each refusal which request it is about, and that the server said it, as over a connection", async () => {
    const body = { code: "approval_already_resolved", detail: "s_1 is already resolved", details: { by: "bob" } };
    const http = new CountersignHttp({ fetch: (async () => Response.json(body, { status: 409 })) as typeof fetch });
    const calls = [http.decide("s_1", {}), http.decideAndWait("s_1", {}), http.comment("s_1", "x"), http.reassign("s_1", {}), http.approval("s_1"), http.previewEdit("s_1", {} as never)];
    for (const call of calls) await expect(call).rejects.toMatchObject({ code: body.code, approvalKey: "s_1", byServer: true, status: 409 });
    await expect(http.session("s")).rejects.toMatchObject({ approvalKey: undefined });
    const proxy = new CountersignHttp({ fetch: (async () => new Response("<html>", { status: 502 })) as typeof fetch });
    await expect(proxy.decide("s_1", {})).rejects.toMatchObject({ code: "http_502", approvalKey: "s_1", byServer: false });
  });

  it("stops waiting for a turn, or for the whole audit log, where the caller does", async () => {
    const fetch = ((_: string, { signal }: RequestInit) => new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)))) as typeof globalThis.fetch;
    const [http, gaveUp] = [new CountersignHttp({ fetch }), new AbortController()];
    const calls = [http.sendMessage("s", { content: "hi" }, gaveUp.signal), http.decideAndWait("s_1", {}, gaveUp.signal), http.verifyAudit(undefined, gaveUp.signal)];
    gaveUp.abort();
    expect((await Promise.allSettled(calls)).map((r) => r.status === "rejected" && r.reason)).toEqual(calls.map(() => gaveUp.signal.reason));
  });

  it("retries what has failed, with more model calls where it is told to", async () => {
    const { asked, sent, http } = answering({ session_id: "s.1", status: "running" });
    expect(await http.retry("s.1")).toMatchObject({ status: "running" });
    await http.retry("s.1", { moreCalls: 10, requestId: "r1" });
    expect(asked).toEqual(["/v1/sessions/s.1/retry", "/v1/sessions/s.1/retry"]);
    expect(sent.map((s) => [s.method, JSON.parse(String(s.body))])).toEqual([
      ["POST", {}],
      ["POST", { more_calls: 10, request_id: "r1" }],
    ]);
  });

  it("lists standing rules with every digit of their arguments, and revokes one", async () => {
    const fetch = (() =>
      Promise.resolve(new Response('{"rules":[{"id":"s_1.0","args":{"n":9007199254740993,"p":1.10}}],"next_cursor":"c"}'))) as never;
    const { rules, next } = await new CountersignHttp({ fetch }).rules();
    expect([stringifyJson(rules[0]!.args!), next]).toEqual(['{"n":9007199254740993,"p":1.10}', "c"]);
    const { asked, sent, http } = answering({ id: "s_1.0", state: "ended" });
    await http.rules({ state: ["active", "suspended"], cursor: "c" });
    expect(await http.revokeRule("s_1.0")).toMatchObject({ state: "ended" });
    expect(asked).toEqual(["/v1/rules?state=active%2Csuspended&cursor=c", "/v1/rules/s_1.0"]);
    expect(sent.map((s) => [s.method, s.body])).toEqual([
      ["GET", undefined],
      ["DELETE", undefined],
    ]);
  });
});
