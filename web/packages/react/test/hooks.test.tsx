// @vitest-environment jsdom
import { act, StrictMode } from "react";
import { createRoot, hydrateRoot } from "react-dom/client";
import { renderToString } from "react-dom/server";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { CountersignClient, CountersignHttp, type SessionEvent } from "@countersign/client";
import { CountersignProvider, forgetPerson, inboxOf, sessionsOf, useConnection, useInbox, useArgumentEdit, useDraft, useSession, type ArgumentEdit, type Session } from "../src/index.js";
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

it("u2: somebody else finds nothing of what the one before has entered, on the page or in the tab", async () => {
  let enter: (text: string) => void = () => {};
  function Field() {
    const [text, set] = useDraft("reply:k:d", () => "nothing");
    enter = set;
    return <p>{text}</p>;
  }
  const page = document.createElement("div");
  const root = createRoot(page);
  const draw = (client = connected()) =>
    act(async () => root.render(<CountersignProvider client={client} http={new CountersignHttp()}><Field /></CountersignProvider>));
  await draw();
  await act(async () => enter("buy"));
  expect(page.textContent).toBe("buy");
  forgetPerson();
  await draw();
  expect(page.textContent).toBe("nothing");
  await act(async () => root.unmount());
});

it("u2: a part of the page that hydrates late begins as the server drew it, though another part follows the same already", async () => {
  const http = new CountersignHttp({ fetch: async () => new Response('{"approvals":[{"approval_key":"a","session_id":"s","actions":[]}],"next_cursor":null}') });
  const client = connected();
  const stop = sessionsOf(client).follow("s");
  const leave = inboxOf(client, http).follow({ everyMs: 0, pages: 1 });
  Socket.last.receive({ type: "run_status", status: "running", pending: [], session_id: "s", seq: 1 });
  await wait(20);
  expect([sessionsOf(client).get("s").view.status, inboxOf(client, http).get().requests.length]).toEqual(["running", 1]);
  function Part() {
    const { view } = useSession("s");
    const { loading } = useInbox();
    return <p>{`${view.status ?? "none"} ${loading} ${useConnection()}`}</p>;
  }
  const part = <CountersignProvider client={client} http={http}><Part /></CountersignProvider>;
  const page = document.createElement("div");
  page.innerHTML = renderToString(part);
  expect(page.textContent).toBe("none true idle");
  const mended = vi.fn();
  const root = await act(async () => hydrateRoot(page, part, { onRecoverableError: mended }));
  expect([mended.mock.calls, page.textContent]).toEqual([[], "running false open"]);
  await act(async () => root.unmount());
  stop();
  leave();
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

  it("keeps nothing of sessions that are only rendered, as on a server", async () => {
    const client = connected();
    const sessions = sessionsOf(client);
    const first = sessions.get("s0");
    expect(sessions.get("s0")).toBe(first);
    const refs = Array.from({ length: 100 }, (_, i) => sessions.get(`s${i}`));
    // Another object only if it was forgotten meanwhile.
    expect(sessions.get("s0")).not.toBe(first);
    expect(sessions.get("s0")).toEqual(first);
    expect(sessions.get("s99")).toBe(refs[99]);
    // The rendered session is the one that is watched.
    const stop = sessions.watch("s99", () => undefined);
    expect(sessions.get("s99")).toBe(refs[99]);
    for (let i = 0; i < 100; i++) sessions.get(`t${i}`);
    expect(sessions.get("s99")).toBe(refs[99]);
    stop();
    for (let i = 0; i < 100; i++) sessions.get(`t${i}`);
    expect(sessions.get("s99")).not.toBe(refs[99]);
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

  it("follows one that is not there yet once somebody else has made it", async () => {
    const { page } = await show(<Chat />);
    const missing = () => act(async () => Socket.last.receive({ type: "error", code: "session_not_found", message: "no", session_id: "s" }));
    await missing();
    expect([page.textContent, subscriptions().length]).toEqual(["none true open", 1]);
    await wait(1_000);
    expect(subscriptions().length).toBe(2);
    drawn = 0;
    await missing();
    await wait(2_000);
    expect([drawn, subscriptions().length]).toEqual([0, 3]);
    Socket.last.receive(status(1, "running"));
    await wait(20);
    expect(page.textContent).toBe("running false open");
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

  it("shows nothing of a session that its server has lost, and what there is under its id anew", async () => {
    const refuse = (code: string) => act(async () => Socket.last.receive({ type: "error", code, message: "no", session_id: "s" }));
    const { page } = await show(<Chat />);
    Socket.last.receive({ type: "message_start", role: "user", message_id: "old", session_id: "s", seq: 5 }, status(6, "running"));
    await wait(20);
    expect(session.view.messages).toHaveLength(1);
    // An event that has arrived but is not drawn yet belongs to the lost session, too.
    Socket.last.receive(status(7, "awaiting_input"));
    await refuse("session_not_found");
    await wait(20);
    expect([page.textContent, session.view.messages, session.view.lastSeq]).toEqual(["none false open", [], 0]);
    expect(Socket.last.sent.at(-1)).toEqual({ type: "subscribe", session_id: "s", last: 80 });
    await refuse("session_not_found");
    expect(page.textContent).toBe("none true open");
    Socket.last.receive(status(1, "running"), status(2, "completed"));
    await wait(20);
    expect([page.textContent, session.view.lastSeq]).toEqual(["completed false open", 2]);
    // A backup has been restored that ends earlier.
    await refuse("invalid_message");
    Socket.last.receive(status(1, "running"));
    await wait(20);
    expect([page.textContent, session.view.lastSeq]).toEqual(["running false open", 1]);
  });

  it("shows nothing of a session that it has left, once the server has another history", async () => {
    const client = new CountersignClient({ url: "ws://server", webSocket: Socket, isUnauthorized: async () => false });
    const hello = (history_id: string) =>
      act(async () => Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0, history_id }));
    client.connect();
    await hello("a");
    const { page, draw } = await show(<Chat />, { client });
    Socket.last.receive(status(3, "running"));
    await wait(20);
    await draw(<p />);
    await act(async () => Socket.last.onclose?.());
    await wait(60_000);
    await hello("b");
    await draw(<Chat />);
    expect(page.textContent).toBe("none false open");
    expect(Socket.last.sent.at(-1)).toEqual({ type: "subscribe", session_id: "s", last: 80 });
  });

  it("follows one again that was lost meanwhile from near its end", async () => {
    const { draw } = await show(<Chat />);
    Socket.last.receive(status(3, "running"));
    await wait(20);
    await draw(<p />);
    await draw(<Chat />);
    expect(Socket.last.sent.at(-1)).toMatchObject({ type: "subscribe", session_id: "s", after: 3 });
    await act(async () => Socket.last.receive({ type: "error", code: "invalid_message", message: "no", session_id: "s" }));
    expect(Socket.last.sent.at(-1)).toEqual({ type: "subscribe", session_id: "s", last: 80 });
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
    expect([session.hasEarlier, session.view.messages.map((m) => m.id)]).toEqual([true, ["m3"]]);
    await act(async () => void (await Promise.all([session.loadEarlier(), session.loadEarlier()])));
    expect(events.mock.calls).toEqual([["s", { last: 80, before: 3, signal: expect.any(AbortSignal) }]]);
    expect([session.hasEarlier, session.view.messages.map((m) => m.id)]).toEqual([false, ["m1", "m2", "m3"]]);
    await act(() => session.loadEarlier());
    expect(events).toHaveBeenCalledOnce();
  });

  it("does not wait for what came before forever, where the network stalls, and reads it when that is wanted again", async () => {
    const http = new CountersignHttp();
    const of = (seq: number) => ({ type: "message_start", role: "user", message_id: `m${seq}`, session_id: "s", seq }) as SessionEvent;
    const stalls = (signal?: AbortSignal) => new Promise<never>((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
    const slow = async function* () {
      for (const seq of [1, 2]) {
        await new Promise((resolve) => setTimeout(resolve, 50_000));
        yield of(seq);
      }
    };
    vi.spyOn(http, "events")
      .mockImplementationOnce(async function* (_, { signal } = {}) {
        await stalls(signal);
      })
      .mockImplementationOnce(slow);
    await show(<Chat />, { http });
    Socket.last.receive(status(3, "running"));
    await wait(20);
    vi.useFakeTimers();
    try {
      const read = async (ms: number) => {
        const done = session.loadEarlier().catch((e: unknown) => e);
        await vi.advanceTimersByTimeAsync(ms);
        return done;
      };
      expect(await act(() => read(60_000))).toMatchObject({ name: "TimeoutError" });
      expect(await act(() => read(100_000))).toBeUndefined();
    } finally {
      vi.useRealTimers();
    }
    expect(session.view.messages.map((m) => m.id)).toEqual(["m1", "m2"]);
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

  it("keeps up in an iframe out of view, which has no frames and is not hidden", async () => {
    const { page } = await show(<Chat />);
    const frames = vi.spyOn(window, "requestAnimationFrame").mockReturnValue(0);
    Socket.last.receive(...Array.from({ length: 25 }, (_, i) => status(1 + i, "running")));
    await wait(250);
    frames.mockRestore();
    expect([page.textContent, session.view.lastSeq]).toEqual(["running false open", 25]);
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
