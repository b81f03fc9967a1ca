// @vitest-environment jsdom
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { SessionSummary } from "@countersign/client";
import { Socket } from "./socket.js";

vi.stubGlobal("WebSocket", Socket);
/** A message from another tab of the browser. */
let tell = (_: unknown) => {};
vi.stubGlobal("BroadcastChannel", class {
  postMessage() {}
  set onmessage(listen: (message: { data: unknown }) => void) {
    tell = (data) => listen({ data });
  }
});
vi.useFakeTimers();
const { client, http } = await import("../src/state/connection.js");
const { agents, forgetSession, loadMoreSessions, sessionList, startLists, waiting } = await import("../src/state/lists.js");

const HOUR = Date.parse("2026-01-01T00:00:00Z");
/** `n`: the higher, the later something happened there. */
const session = (n: number): SessionSummary => ({ session_id: `s${n}`, updated_at: new Date(HOUR + n * 60_000).toISOString() }) as never;
const page = (...ns: number[]) => ns.map(session);
const shown = () => sessionList.get().rows.map((row) => row.session_id);
const soon = () => vi.advanceTimersByTimeAsync(1_100);
const hello = () => Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });

let first: SessionSummary[];
let second: Promise<{ sessions: SessionSummary[]; next: string | undefined }>;
const sessions = vi.spyOn(http, "sessions").mockImplementation((query) => (query === "more" ? second : Promise.resolve({ sessions: first, next: "more" })));
const pending = vi.spyOn(http, "pending");
const known = vi.spyOn(http, "agents");

startLists();
client.connect();
Socket.last.onopen?.();

beforeEach(async () => {
  pending.mockResolvedValue({ approvals: [], next: undefined });
  known.mockResolvedValue([]);
  first = page(5, 4);
  second = Promise.resolve({ sessions: page(3, 2), next: undefined });
  hello();
  await soon();
});
afterEach(() => sessions.mockClear());

test("u1: a session that falls off the first page while the next one is read stays in the list", async () => {
  let read = () => {};
  second = new Promise((resolve) => (read = () => resolve({ sessions: page(3, 2), next: undefined })));
  const loading = loadMoreSessions();
  first = page(6, 5);
  await soon();
  read();
  await loading;
  expect(shown()).toEqual(["s6", "s5", "s4", "s3", "s2"]);
  await soon();
  expect(shown()).toEqual(["s6", "s5", "s4", "s3", "s2"]);
  for (const id of shown()) forgetSession(id);
});

test("u1: sessions that fall off the first page stay in the list once more pages are read", async () => {
  await loadMoreSessions();
  expect(shown()).toEqual(["s5", "s4", "s3", "s2"]);
  first = page(6, 5);
  await soon();
  expect(shown()).toEqual(["s6", "s5", "s4", "s3", "s2"]);
  // One that is deleted elsewhere is not kept so.
  first = page(6, 4);
  await soon();
  expect(shown()).toEqual(["s6", "s4", "s3", "s2"]);
});

test("u1: more sessions are read once, however often they are asked for, and a failure is told", async () => {
  sessions.mockClear();
  await Promise.all([loadMoreSessions(), loadMoreSessions()]);
  expect(sessions.mock.calls.filter(([query]) => query === "more").length).toBeLessThanOrEqual(1);
  expect(new Set(shown()).size).toBe(shown().length);
  sessionList.set((list) => ({ ...list, next: "more" }));
  second = Promise.reject(new Error("Gone."));
  await expect(loadMoreSessions()).rejects.toThrow("Gone.");
});

test("u1: an answer that never comes does not stop the lists", async () => {
  sessions.mockReturnValueOnce(new Promise(() => {}));
  await soon();
  first = page(9);
  await vi.advanceTimersByTimeAsync(14_000);
  expect(shown()).not.toContain("s9");
  await vi.advanceTimersByTimeAsync(2_000);
  expect(shown()).toContain("s9");
});

test("u1: a deleted session takes along what waits in it", async () => {
  const request = (sessionId: string, n: number) => ({ approvalKey: `${sessionId}_${n}`, sessionId, updates: [] }) as never;
  pending.mockResolvedValue({ approvals: [request("s5", 1), request("s4", 1), request("s5", 2)], next: undefined });
  await soon();
  expect(waiting.get().requests).toHaveLength(3);
  forgetSession("s5");
  expect(waiting.get().requests.map((one) => one.approvalKey)).toEqual(["s4_1"]);
});

test("u1: agents are those of the server as it is since the last connection", async () => {
  known.mockResolvedValue([{ name: "new" }] as never);
  await soon();
  expect(agents.get()).toEqual([]);
  hello();
  await soon();
  expect(agents.get()).toEqual([{ name: "new" }]);
});

test("u1: other tabs have nothing read here while there is no connection, but what they deleted goes", async () => {
  await soon();
  Socket.last.onclose?.();
  sessions.mockClear();
  pending.mockClear();
  tell("changed");
  tell({ deleted: "s5" });
  expect(shown()).not.toContain("s5");
  await vi.advanceTimersByTimeAsync(300);
  expect([sessions.mock.calls.length, pending.mock.calls.length]).toEqual([0, 0]);
  client.retryNow();
  hello();
  sessions.mockClear();
  pending.mockClear();
  tell("changed");
  await vi.advanceTimersByTimeAsync(300);
  expect([sessions.mock.calls.length, pending.mock.calls.length]).toEqual([1, 1]);
});
