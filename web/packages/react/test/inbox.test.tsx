// @vitest-environment jsdom
import { act } from "react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { CountersignClient, CountersignHttp } from "@countersign/client";
import { inboxOf, useInbox, useSession, type Inbox } from "../src/index.js";
import { connected, show, Socket } from "./page.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());
const wait = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));

describe("useInbox", () => {
  let inbox: Inbox;
  let drawn = 0;
  function List({ tool, ...options }: { tool?: string; everyMs?: number; pages?: number }) {
    drawn++;
    inbox = useInbox({ ...options, ...(tool === undefined ? {} : { query: { tool } }) });
    return <p>{inbox.requests.map((one) => one.approvalKey).join(" ")}</p>;
  }
  /** A server with these keys, two on a page. */
  const serving = (keys: string[], delay = 0) => {
    const asked: string[] = [];
    const signals: AbortSignal[] = [];
    const fetch = (async (url: string, { signal }: { signal: AbortSignal }) => {
      asked.push(url);
      signals.push(signal);
      const at = Number(new URL(url, "http://x").searchParams.get("cursor") ?? 0);
      const approvals = keys.slice(at, at + 2).map((key) => {
        const [approval_key, ...updates] = key.split(":");
        return { approval_key, session_id: "s", actions: [], updates: updates.map((text) => ({ update: "comment", text })) };
      });
      await new Promise((resolve) => setTimeout(resolve, delay));
      if (keys.includes("down")) throw new TypeError("fetch failed");
      return new Response(JSON.stringify({ approvals, next_cursor: at + 2 < keys.length ? String(at + 2) : null }));
    }) as typeof globalThis.fetch;
    return { asked, keys, signals, http: new CountersignHttp({ fetch }) };
  };

  it("reads page after page, and all that is shown again", async () => {
    const { keys, http } = serving(["a", "b", "c", "d", "e"]);
    const { page } = await show(<List />, { client: connected(), http });
    expect(inbox.loading).toBe(true);
    await wait(1);
    expect([page.textContent, inbox.hasMore, inbox.loading]).toEqual(["a b", true, false]);
    void inbox.loadMore();
    await wait(5);
    expect([page.textContent, inbox.hasMore]).toEqual(["a b c d", true]);
    keys.shift();
    await wait(10_010);
    expect([page.textContent, inbox.hasMore]).toEqual(["b c d e", false]);
  });

  it("reads on when a page has no requests, but not for ever", async () => {
    /** Pages with nothing but the last; the cursor is the number of a page. */
    const sparse = (empty: number) => {
      const asked: string[] = [];
      const fetch = (async (url: string) => {
        const at = Number(new URL(url, "http://x").searchParams.get("cursor") ?? 0);
        asked.push(String(at));
        const approvals = at < empty ? [] : [{ approval_key: "a", session_id: "s", actions: [] }];
        return new Response(JSON.stringify({ approvals, next_cursor: at < empty ? String(at + 1) : null }));
      }) as typeof globalThis.fetch;
      return { asked, http: new CountersignHttp({ fetch }) };
    };
    const near = sparse(4);
    const { page } = await show(<List />, { client: connected(), http: near.http });
    await wait(1);
    expect([page.textContent, inbox.hasMore, near.asked]).toEqual(["a", false, ["0", "1", "2", "3", "4"]]);
    const far = sparse(7);
    const other = await show(<List />, { client: connected(), http: far.http });
    await wait(1);
    expect([other.page.textContent, inbox.hasMore, inbox.loading, far.asked.length]).toEqual(["", true, false, 5]);
    void inbox.loadMore();
    await wait(5);
    expect([other.page.textContent, inbox.hasMore, far.asked.length]).toEqual(["a", false, 13]);
  });

  it("reads again for another filter, and drops what came for the one before", async () => {
    const { asked, http } = serving(["a"], 50);
    const { page, draw } = await show(<List tool="pay" />, { client: connected(), http });
    await draw(<List tool="mail" />);
    await wait(200);
    expect(asked).toEqual(["/v1/approvals?status=waiting&tool=pay", "/v1/approvals?status=waiting&tool=mail"]);
    expect(page.textContent).toBe("a");
  });

  it("keeps what it has when the server cannot be reached, and waits for one that is slow", async () => {
    const { asked, keys, http } = serving(["a"], 25_000);
    const { page } = await show(<List />, { client: connected(), http });
    await wait(24_000);
    expect(asked.length).toBe(1);
    await wait(2_000);
    expect([page.textContent, inbox.error]).toEqual(["a", undefined]);
    keys.push("down");
    await wait(40_000);
    expect([page.textContent, inbox.error]).toMatchObject(["a", { code: "unreachable" }]);
  });

  it("ends with the last component that shows it, and is read once for all of them", async () => {
    const { asked, http } = serving(["a"]);
    const { page, draw } = await show(<><List /><List key="b" /></>, { client: connected(), http });
    await wait(1);
    expect([page.textContent, asked.length]).toEqual(["aa", 1]);
    await wait(10_000);
    expect(asked.length).toBe(2);
    await draw(<List key="b" />);
    await wait(10_000);
    expect(asked.length).toBe(3);
    await draw(<p />);
    await wait(60_000);
    expect(asked.length).toBe(3);
  });

  it("is read as often as who wants it most often says, and once more only for who wants more pages", async () => {
    const { asked, http } = serving(["a", "b", "c"]);
    function Often({ pages = 1 }) {
      const { requests } = useInbox({ everyMs: 1_000, pages });
      return <i>{requests.length}</i>;
    }
    const { page, draw } = await show(<List />, { client: connected(), http });
    await wait(1);
    await draw(<><List /><Often /></>);
    expect(asked.length).toBe(1);
    await wait(3_100);
    expect(asked.length).toBe(4);
    await draw(<><List /><Often pages={2} /></>);
    await wait(1);
    expect([page.querySelector("i")?.textContent, asked.length]).toEqual(["3", 6]);
  });

  it("tells that the session of a request is held, and that it is no longer", async () => {
    const fork = { reason: "fork", message: "Nobody has continued this fork yet." };
    let held: object | undefined;
    const fetch = (async () => new Response(JSON.stringify({ approvals: [{ approval_key: "a", session_id: "s", actions: [], held }] }))) as typeof globalThis.fetch;
    await show(<List />, { client: connected(), http: new CountersignHttp({ fetch }) });
    await wait(1);
    for (const now of [fork, { ...fork, reason: "restored" }, { reason: "restored", message: "From a backup." }, undefined]) {
      held = now;
      await wait(10_010);
      expect(inbox.requests[0]?.held).toEqual(now);
    }
  });

  it("is drawn anew only with what has changed", async () => {
    const { keys, http } = serving(["a", "b"]);
    await show(<List />, { client: connected(), http });
    await wait(1);
    const [a, b] = inbox.requests;
    drawn = 0;
    await wait(20_000);
    expect(drawn).toBe(0);
    keys.splice(0, 1, "b:talked");
    keys.splice(1, 1, "a");
    await wait(10_050);
    expect(inbox.requests.map((one) => [one.approvalKey, one.updates.length])).toEqual([["b", 1], ["a", 0]]);
    expect([inbox.requests[0] === b, inbox.requests[1] === a]).toEqual([false, true]);
  });

  it("loses at once what was decided here, also where an answer on its way still has it, and else believes the server", async () => {
    const { asked, keys, http } = serving(["a", "b"], 500);
    const { page } = await show(<List />, { client: connected(), http });
    await wait(600);
    await wait(10_000);
    expect(asked.length).toBe(2);
    // The second answer is on its way.
    await act(async () => inbox.forget("a"));
    expect(page.textContent).toBe("b");
    keys.shift();
    await wait(500);
    expect([page.textContent, asked.length]).toEqual(["b", 2]);
    // Changes in between are requested at once.
    await wait(700);
    expect([page.textContent, asked.length]).toEqual(["b", 3]);
    await act(async () => inbox.forget("b"));
    expect(page.textContent).toBe("");
    await wait(1_000);
    expect(page.textContent).toBe("b");
  });

  it("is read soon after the connection tells of a change, once for several, and as soon as there is one again", async () => {
    const { asked, http } = serving(["a"]);
    // Events come only from followed sessions.
    function Both() {
      useSession("s");
      return <List />;
    }
    await show(<Both />, { client: connected(), http });
    await wait(1);
    for (const seq of [1, 2, 3]) Socket.last.receive({ type: "run_status", status: "running", pending: [], session_id: "s", seq });
    Socket.last.receive({ type: "content_block_stop", index: 0, session_id: "s", seq: 4 });
    await wait(400);
    expect(asked.length).toBe(2);
    Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });
    await wait(1);
    expect(asked.length).toBe(3);
  });

  it("is read less often while the page is hidden, where much has to be read for it, and where it is told to", async () => {
    const few = serving(["a"]);
    const { draw } = await show(<List everyMs={1_000} />, { client: connected(), http: few.http });
    await wait(1);
    Object.defineProperty(document, "hidden", { value: true, configurable: true });
    await wait(1_000 + 14_500);
    expect(few.asked.length).toBe(2);
    await wait(1_000);
    expect(few.asked.length).toBe(3);
    Reflect.deleteProperty(document, "hidden");
    await act(async () => void document.dispatchEvent(new Event("visibilitychange")));
    await wait(200);
    expect(few.asked.length).toBe(4);
    await draw(<p />);
    const many = serving(Array.from({ length: 51 }, (_, i) => String(i)));
    await show(<List everyMs={1_000} pages={30} />, { client: connected(), http: many.http });
    await wait(100);
    expect([inbox.requests.length, many.asked.length]).toEqual([51, 26]);
    await wait(3_000);
    expect(many.asked.length).toBe(26);
    await wait(1_000);
    expect(many.asked.length).toBe(52);
    const never = serving(["a"]);
    await show(<List everyMs={0} />, { client: connected(), http: never.http });
    await wait(100_000);
    expect(never.asked.length).toBe(1);
  });

  it("waits for the connection for a while, and reads nothing for who has no token", async () => {
    const { asked, http } = serving(["a"]);
    const client = new CountersignClient({ url: "ws://server", webSocket: Socket, isUnauthorized: async () => false });
    client.connect();
    await show(<List everyMs={1_000} />, { client, http });
    await wait(4_000);
    expect(asked.length).toBe(0);
    await wait(2_000);
    expect(asked.length).toBe(1);
    const nobody = serving(["a"]);
    const refused = new CountersignClient({ url: "ws://server", webSocket: Socket, isUnauthorized: async () => true });
    refused.connect();
    await act(async () => Socket.last.onclose?.());
    expect(refused.state).toBe("unauthorized");
    await show(<List everyMs={1_000} />, { client: refused, http: nobody.http });
    await wait(60_000);
    expect(nobody.asked.length).toBe(0);
    await act(async () => refused.setToken("good"));
    Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });
    await wait(1);
    expect(nobody.asked.length).toBe(1);
  });

  it("is not stopped by an answer that never comes, and takes one that comes late", async () => {
    const { http } = serving(["a"]);
    vi.spyOn(http, "pending").mockImplementationOnce(() => new Promise(() => {}));
    const { page } = await show(<List />, { client: connected(), http });
    await wait(29_000);
    expect([page.textContent, inbox.loading]).toEqual(["", true]);
    await wait(2_000);
    expect(page.textContent).toBe("a");
    const slow = serving(["a"], 45_000);
    const other = await show(<List />, { client: connected(), http: slow.http });
    await wait(46_000);
    expect([other.page.textContent, slow.asked.length]).toEqual(["a", 2]);
  });

  it("is kept for the queries that were used last, and for each that somebody follows", async () => {
    const [client, http] = [connected(), new CountersignHttp()];
    const tool = (n: number) => inboxOf(client, http, { tool: `t${n}` });
    const [first, followed, used, left] = [tool(0), tool(1), tool(2), tool(3)];
    const stop = followed.follow({ everyMs: 0, pages: 1 });
    const leave = left.follow({ everyMs: 0, pages: 1 });
    for (let n = 4; n < 23; n++) expect(tool(n)).toBe(tool(n));
    expect(tool(2)).toBe(used);
    leave();
    await wait(1);
    for (let n = 23; n < 40; n++) tool(n);
    expect([tool(2) === used, tool(3) === left, tool(1) === followed]).toEqual([true, true, true]);
    expect(tool(0)).not.toBe(first);
    expect(inboxOf(connected(), http, { tool: "t1" })).not.toBe(followed);
    stop();
    client.close();
  });

  it("is the same for the same filters in another order, and for one that is not given", () => {
    const [client, http] = [connected(), new CountersignHttp()];
    const one = inboxOf(client, http, { tool: "pay", agent: "trader" });
    expect(inboxOf(client, http, { agent: "trader", tool: "pay", limit: undefined } as never)).toBe(one);
    expect(inboxOf(client, http, { agent: "pay", tool: "trader" })).not.toBe(one);
    client.close();
  });

  it("reads further once, however often that is asked for meanwhile, and from what is shown on", async () => {
    const { asked, keys, http } = serving(["a", "b", "c", "d", "e", "f", "g"], 50);
    const { page } = await show(<List />, { client: connected(), http });
    await wait(60);
    for (let i = 0; i < 3; i++) void inbox.loadMore();
    await wait(60);
    void inbox.loadMore();
    await wait(100);
    expect([page.textContent, inbox.hasMore, asked.length]).toEqual(["a b c d", true, 3]);
    // Failed reads do not count.
    keys.push("down");
    for (let i = 0; i < 3; i++) await act(async () => void (await Promise.all([inbox.loadMore(), vi.advanceTimersByTimeAsync(60)])));
    expect(inbox.error).toMatchObject({ code: "unreachable" });
    keys.pop();
    await act(async () => void (await Promise.all([inbox.loadMore(), vi.advanceTimersByTimeAsync(500)])));
    expect([page.textContent, inbox.hasMore]).toEqual(["a b c d e f", true]);
  });

  it("is read no further than those want who still follow it", async () => {
    const { asked, http } = serving(["a", "b", "c", "d", "e"]);
    const { draw } = await show(<><List /><List key="b" pages={3} /></>, { client: connected(), http });
    await wait(1);
    expect(asked.length).toBe(3);
    await draw(<><List /></>);
    await wait(10_010);
    expect([inbox.requests.length, inbox.hasMore, asked.length]).toEqual([2, true, 4]);
  });

  it("stays as it is for who wants it read more often", async () => {
    const { asked, http } = serving(["a", "b", "c"]);
    const { page, draw } = await show(<List />, { client: connected(), http });
    await wait(1);
    void inbox.loadMore();
    await wait(5);
    await draw(<List everyMs={1_000} />);
    await wait(1);
    expect([page.textContent, asked.length]).toEqual(["a b c", 3]);
    await wait(1_000);
    expect([page.textContent, asked.length]).toEqual(["a b c", 5]);
  });

  it("ends what is not waited for any more, and has two readings under way at most", async () => {
    const { signals, http } = serving(["a"], 25_000);
    const hello = () => Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });
    const ended = () => signals.map((one) => one.aborted);
    const { draw } = await show(<List everyMs={0} />, { client: connected(), http });
    hello();
    hello();
    await wait(20_000);
    expect(ended()).toEqual([true, false, false]);
    await draw(<p />);
    expect(ended()).toEqual([true, true, true]);
    // A page that comes back does not wait for an answer that never comes.
    await draw(<List everyMs={0} />);
    expect(signals.length).toBe(4);
    await wait(26_000);
    vi.spyOn(http, "pending").mockImplementationOnce(() => new Promise(() => {}));
    hello();
    hello();
    await wait(24_000);
    const [[, lost], [, next]] = vi.mocked(http.pending).mock.calls as [[object, AbortSignal], [object, AbortSignal]];
    expect([lost.aborted, next.aborted]).toEqual([false, false]);
    // A later request has its answer.
    await wait(2_000);
    expect([lost.aborted, next.aborted, ended()[4]]).toEqual([true, false, false]);
  });

  it("tells of a first reading that failed", async () => {
    const { keys, http } = serving(["a", "down"]);
    await show(<List everyMs={0} />, { client: connected(), http });
    await wait(1);
    expect(inbox).toMatchObject({ requests: [], loading: false, error: { code: "unreachable" } });
    keys.pop();
    await act(() => Promise.all([inbox.refresh(), vi.advanceTimersByTimeAsync(1)]));
    expect(inbox).toMatchObject({ requests: [{ approvalKey: "a" }], loading: false, error: undefined });
  });

  it("says why nothing is read: without a valid token, and once the connection is closed, until there is one again", async () => {
    const { http } = serving(["a"], 5);
    const client = new CountersignClient({ url: "ws://server", webSocket: Socket, isUnauthorized: async () => true });
    client.connect();
    await show(<List />, { client, http });
    expect([inbox.loading, inbox.error]).toEqual([true, undefined]);
    await act(async () => Socket.last.onclose?.());
    expect(client.state).toBe("unauthorized");
    expect(inbox).toMatchObject({ requests: [], loading: false, error: { code: "unauthenticated" } });
    // A page that reads later gets the same error.
    const other = new CountersignClient({ url: "ws://server", webSocket: Socket, isUnauthorized: async () => true });
    other.connect();
    await act(async () => Socket.last.onclose?.());
    await show(<List />, { client: other, http });
    expect(inbox).toMatchObject({ loading: false, error: { code: "unauthenticated" } });
    await act(async () => other.setToken("good"));
    expect([inbox.loading, inbox.error]).toEqual([true, undefined]);
    await act(async () => Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 }));
    await wait(10);
    expect(inbox).toMatchObject({ requests: [{ approvalKey: "a" }], loading: false, error: undefined });
    await act(async () => other.close());
    expect(inbox).toMatchObject({ requests: [{ approvalKey: "a" }], loading: false, error: { code: "closed" } });
  });

  it("reads nothing without a token, nor once the connection is closed, whoever asks", async () => {
    const { asked, http } = serving(["a"]);
    const client = new CountersignClient({ url: "ws://server", webSocket: Socket, isUnauthorized: async () => true });
    client.connect();
    Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });
    await show(<List everyMs={1_000} />, { client, http });
    await wait(1);
    expect(asked.length).toBe(1);
    await act(async () => client.close());
    const all = () => Promise.all([inbox.refresh(), inbox.loadMore(), vi.advanceTimersByTimeAsync(60_000)]);
    inboxOf(client, http).changed();
    await act(all);
    expect(asked.length).toBe(1);
    await act(async () => client.connect());
    await act(async () => Socket.last.onclose?.());
    await wait(1);
    expect(client.state).toBe("unauthorized");
    await act(all);
    expect(asked.length).toBe(1);
    // Nor the pages that are left.
    const long = serving(["a", "b", "c", "d"], 10);
    const other = connected();
    await show(<List pages={2} />, { client: other, http: long.http });
    await act(async () => other.close());
    await wait(100);
    expect(long.asked.length).toBe(1);
  });

  it("begins with its first pages again for who comes back", async () => {
    const { asked, http } = serving(["a", "b", "c"]);
    const client = connected();
    const { page, draw } = await show(<List />, { client, http });
    await wait(1);
    void inbox.loadMore();
    await wait(5);
    expect([page.textContent, asked.length]).toEqual(["a b c", 3]);
    await draw(<i />);
    await draw(<List />);
    await wait(1);
    expect([page.textContent, asked.length]).toEqual(["a b", 4]);
  });
});
