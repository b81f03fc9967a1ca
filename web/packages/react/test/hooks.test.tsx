// @vitest-environment jsdom
import { act, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { CountersignHttp, type SessionEvent } from "@countersign/client";
import { sessionsOf, useConnection, useInbox, useArgumentEdit, useSession, type ArgumentEdit, type Inbox, type Session } from "../src/index.js";
import { connected, request, show, Socket } from "./page.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());
const wait = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));

describe("useArgumentEdit", () => {
  it("u2: is nothing where there is no call to edit, or not yet", async () => {
    const edits: ArgumentEdit[] = [];
    function Card({ approval = request() }) {
      edits.push(useArgumentEdit({ approval, index: 0, open: true, draft: undefined, onDraft: () => {} }));
      return edits.at(-1)!.form;
    }
    const { page, draw } = await show(<Card approval={request({ actions: [] })} />);
    expect([page.textContent, edits.at(-1)]).toEqual(["", { form: null, changes: null, preview: undefined, decision: undefined, found: undefined }]);
    await draw(<Card />);
    expect(edits.at(-1)!.decision).toMatchObject({ type: "approve" });
  });
});

describe("useSession", () => {
  let session: Session;
  let drawn = 0;
  function Chat({ id = "s" }) {
    drawn++;
    session = useSession(id);
    const state = useConnection();
    return <p>{`${session.view.status ?? "none"} ${session.missing} ${state}`}</p>;
  }
  const subscriptions = () => Socket.last.sent.map(({ type, session_id }) => `${type} ${session_id}`);
  const status = (seq: number, now: string, session_id = "s") => ({ type: "run_status", status: now, pending: [], session_id, seq });

  it("follows a session while it is shown, and draws a burst of events once", async () => {
    const { page, draw } = await show(<Chat />);
    expect([page.textContent, subscriptions()]).toEqual(["none false open", ["subscribe s"]]);
    drawn = 0;
    Socket.last.receive(status(1, "running"), status(2, "awaiting_input"), status(1, "running", "other"));
    await wait(20);
    expect(page.textContent).toBe("awaiting_input false open");
    expect([session.view.lastSeq, drawn]).toEqual([2, 1]);
    await draw(<p />);
    expect(subscriptions()).toEqual(["subscribe s", "unsubscribe s"]);
  });

  it("shares a session between components, and ends with the last", async () => {
    const { page, draw } = await show(<><Chat /><Chat key="b" /></>);
    expect(subscriptions()).toEqual(["subscribe s"]);
    await draw(<><Chat key="b" /></>);
    Socket.last.receive(status(1, "running"));
    await wait(20);
    expect([page.textContent, subscriptions()]).toEqual(["running false open", ["subscribe s"]]);
    await draw(<Chat key="b" id="t" />);
    expect(page.textContent).toBe("none false open");
    expect(subscriptions().slice(1).sort()).toEqual(["subscribe t", "unsubscribe s"]);
  });

  it("says that there is none, until a message makes it", async () => {
    const client = connected();
    const { page } = await show(<StrictMode><Chat /></StrictMode>, { client });
    await act(async () => Socket.last.receive({ type: "error", code: "session_not_found", message: "no", session_id: "s" }));
    expect(page.textContent).toBe("none true open");
    // The connection ends before their answers come.
    const sent = session.send("Hi", { agent: "trader" }).catch(() => undefined);
    expect(Socket.last.sent.at(-1)).toMatchObject({ type: "message", session_id: "s", content: "Hi", agent: "trader" });
    Socket.last.receive(status(1, "running"));
    await wait(20);
    expect(page.textContent).toBe("running false open");
    const cancelled = session.cancel().catch(() => undefined);
    expect(Socket.last.sent.at(-1)).toMatchObject({ type: "cancel", session_id: "s" });
    await act(async () => client.close());
    await Promise.all([sent, cancelled]);
  });

  it("goes on from where it was when it is followed again", async () => {
    const { page, draw } = await show(<Chat />);
    Socket.last.receive(status(3, "running"));
    await wait(20);
    await draw(<p />);
    await draw(<Chat />);
    expect(page.textContent).toBe("running false open");
    expect(Socket.last.sent.at(-1)).toMatchObject({ type: "subscribe", session_id: "s", after: 3 });
  });

  it("follows a long session from near its end, and reads what came before when that is wanted, once", async () => {
    const said = (seq: number) => ({ type: "message_start", role: "user", message_id: `m${seq}`, session_id: "s", seq }) as SessionEvent;
    const http = new CountersignHttp();
    const events = vi.spyOn(http, "events").mockImplementation(async function* () {
      yield said(1);
      yield said(2);
    });
    await show(<Chat />, { http });
    expect(Socket.last.sent.at(-1)).toEqual({ type: "subscribe", session_id: "s", last: 80 });
    Socket.last.receive(said(3));
    await wait(20);
    expect([session.earlier, session.view.messages.map((m) => m.id)]).toEqual([true, ["m3"]]);
    await act(async () => void (await Promise.all([session.loadEarlier(), session.loadEarlier()])));
    expect(events.mock.calls).toEqual([["s", { last: 80, before: 3 }]]);
    expect([session.earlier, session.view.messages.map((m) => m.id)]).toEqual([false, ["m1", "m2", "m3"]]);
    await act(() => session.loadEarlier());
    expect(events).toHaveBeenCalledOnce();
  });

  it("keeps what has come of those that were followed last, and not of all", async () => {
    const { draw } = await show(<Chat id="s0" />);
    for (let n = 0; n <= 20; n++) {
      Socket.last.receive(status(3, "running", `s${n}`));
      await wait(20);
      await draw(<Chat id={`s${n + 1}`} />);
    }
    await draw(<Chat id="s1" />);
    expect(Socket.last.sent.at(-1)).toMatchObject({ type: "subscribe", session_id: "s1", after: 3 });
    await draw(<Chat id="s0" />);
    expect(Socket.last.sent.at(-1)).toMatchObject({ type: "subscribe", session_id: "s0", last: 80 });
    expect(session.view.lastSeq).toBe(0);
  });

  it("keeps nothing of one that nobody looks at and of which nothing is known", async () => {
    const sessions = sessionsOf(connected());
    const [stop, other] = [sessions.watch("s", () => {}), sessions.watch("s", () => {})];
    const seen = sessions.get("s");
    stop();
    expect(sessions.get("s")).toBe(seen);
    other();
    expect(sessions.get("s")).not.toBe(seen);
  });

  it("draws a past that pours in once it has come", async () => {
    const { page } = await show(<Chat />);
    const pour = (from: number, n: number) => Socket.last.receive(...Array.from({ length: n }, (_, i) => status(from + i, "running")));
    drawn = 0;
    pour(1, 25);
    await wait(17);
    pour(26, 10);
    await wait(17);
    expect([page.textContent, drawn]).toEqual(["none false open", 0]);
    await wait(17);
    expect([page.textContent, drawn, session.view.lastSeq]).toEqual(["running false open", 1, 35]);
  });

  it("keeps up in a hidden tab, which has no frames", async () => {
    const { page } = await show(<Chat />);
    Object.defineProperty(document, "hidden", { value: true, configurable: true });
    const frames = vi.spyOn(window, "requestAnimationFrame");
    Socket.last.receive(status(1, "running"));
    await wait(60);
    Reflect.deleteProperty(document, "hidden");
    expect([page.textContent, frames.mock.calls.length]).toEqual(["running false open", 0]);
  });

  it("tells one that is deleted, and keeps nothing of it", async () => {
    await show(<Chat />);
    Socket.last.receive(status(1, "running"));
    await wait(20);
    await act(async () => Socket.last.receive({ type: "error", code: "session_deleted", message: "gone", session_id: "s" }));
    expect([session.deleted, session.missing, session.view.lastSeq]).toEqual([true, false, 0]);
  });

  it("keeps nothing of one that is deleted while its events are on their way", async () => {
    await show(<Chat />);
    Socket.last.receive(status(1, "running"));
    await act(async () => Socket.last.receive({ type: "error", code: "session_deleted", message: "gone", session_id: "s" }));
    await wait(2000);
    expect([session.deleted, session.view.lastSeq]).toEqual([true, 0]);
  });

  it("needs a provider, and says so", async () => {
    const root = createRoot(document.createElement("div"));
    const drawn = act(async () => root.render(<Chat />));
    await expect(drawn).rejects.toThrow("There is no <CountersignProvider client={…} http={…}> above this component.");
  });
});

describe("useInbox", () => {
  let inbox: Inbox;
  function List({ tool }: { tool?: string }) {
    inbox = useInbox(tool === undefined ? {} : { query: { tool } });
    return <p>{inbox.requests.map((one) => one.approvalKey).join(" ")}</p>;
  }
  /** A server with these keys, two on a page. */
  const serving = (keys: string[], delay = 0) => {
    const asked: string[] = [];
    const fetch = (async (url: string) => {
      asked.push(url);
      const at = Number(new URL(url, "http://x").searchParams.get("cursor") ?? 0);
      const approvals = keys.slice(at, at + 2).map((key) => ({ approval_key: key, session_id: "s", actions: [] }));
      await new Promise((resolve) => setTimeout(resolve, delay));
      if (keys.includes("down")) throw new TypeError("fetch failed");
      return new Response(JSON.stringify({ approvals, next_cursor: at + 2 < keys.length ? String(at + 2) : null }));
    }) as typeof globalThis.fetch;
    return { asked, keys, http: new CountersignHttp({ fetch }) };
  };

  it("reads page after page, and all that is shown again", async () => {
    const { keys, http } = serving(["a", "b", "c", "d", "e"]);
    const { page } = await show(<List />, { client: connected(), http });
    expect(inbox.loading).toBe(true);
    await wait(1);
    expect([page.textContent, inbox.more, inbox.loading]).toEqual(["a b", true, false]);
    void inbox.loadMore();
    await wait(5);
    expect([page.textContent, inbox.more]).toEqual(["a b c d", true]);
    keys.shift();
    await wait(10_010);
    expect([page.textContent, inbox.more]).toEqual(["b c d e", false]);
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
    expect([page.textContent, inbox.more, near.asked]).toEqual(["a", false, ["0", "1", "2", "3", "4"]]);
    const far = sparse(7);
    const other = await show(<List />, { client: connected(), http: far.http });
    await wait(1);
    expect([other.page.textContent, inbox.more, inbox.loading, far.asked.length]).toEqual(["", true, false, 5]);
    void inbox.loadMore();
    await wait(5);
    expect([other.page.textContent, inbox.more, far.asked.length]).toEqual(["a", false, 13]);
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

  it("ends with the component, and leaves a hidden page alone", async () => {
    const { asked, http } = serving(["a"]);
    const { draw } = await show(<List />, { client: connected(), http });
    await wait(1);
    Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true });
    await wait(30_000);
    expect(asked.length).toBe(1);
    Reflect.deleteProperty(document, "visibilityState");
    await wait(10_000);
    expect(asked.length).toBe(2);
    await draw(<p />);
    await wait(60_000);
    expect(asked.length).toBe(2);
  });
});
