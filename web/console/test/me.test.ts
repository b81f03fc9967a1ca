// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { CountersignHttp } from "@countersign/client";
import { CountersignProvider, sessionsOf } from "@countersign/react";

const { Socket } = vi.hoisted(() => {
  class Socket {
    static last: Socket;
    onopen = null;
    onclose: (() => void) | null = null;
    onerror = null;
    onmessage: ((message: { data: string }) => void) | null = null;
    constructor() {
      Socket.last = this;
    }
    send() {}
    close() {}
    receive(frame: object) {
      this.onmessage?.({ data: JSON.stringify(frame) });
    }
  }
  return { Socket };
});
vi.mock("../src/state/connection.js", async () => {
  const { CountersignClient } = await import("@countersign/client");
  return { client: new CountersignClient({ url: "ws://server", webSocket: Socket }), http: { session: vi.fn() } };
});
const { client, http } = await import("../src/state/connection.js");
const { sessionList } = await import("../src/state/lists.js");
const { useOwns } = await import("../src/state/me.js");

beforeEach(() => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  vi.useFakeTimers();
});
afterEach(() => void vi.useRealTimers());
const wait = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));
const hello = () => Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0, subject: "alice" });

test("who owns a session that is in no list is asked again, where the server could not be reached", async () => {
  vi.mocked(http.session).mockRejectedValueOnce(new TypeError("fetch failed")).mockResolvedValue({ session_id: "s", subject: "alice" } as never);
  const Owner = () => h("p", null, String(useOwns("s")));
  const box = document.createElement("div");
  const root = createRoot(box);
  client.connect();
  hello();
  sessionList.set({ rows: [], next: undefined, loaded: true });
  sessionsOf(client).follow("s");
  await act(async () => root.render(h(CountersignProvider, { client, http: new CountersignHttp(), children: h(Owner) })));
  Socket.last.receive({ type: "run_status", status: "running", pending: [], session_id: "s", seq: 1 });
  await wait(100);
  expect([box.textContent, vi.mocked(http.session).mock.calls.length]).toEqual(["false", 1]);
  await act(async () => Socket.last.onclose?.());
  await wait(2000);
  await act(async () => hello());
  await wait(100);
  expect([box.textContent, vi.mocked(http.session).mock.calls.length]).toEqual(["true", 2]);
  await act(async () => root.unmount());
  client.close();
});
