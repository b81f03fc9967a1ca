// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, expect, test, vi } from "vitest";
import { CountersignError, CountersignHttp } from "@countersign/client";
import { CountersignProvider, sessionsOf } from "@countersign/react";

vi.mock("../src/state/connection.js", async () => {
  const { CountersignClient } = await import("@countersign/client");
  const { Socket } = await import("./socket.js");
  return { client: new CountersignClient({ url: "ws://server", webSocket: Socket, isUnauthorized: async () => false }), http: { session: vi.fn() } };
});
const { Socket } = await import("./socket.js");
const { client, http } = await import("../src/state/connection.js");
const { sessionList } = await import("../src/state/lists.js");
const { useOwns } = await import("../src/state/me.js");

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
vi.useFakeTimers();
afterEach(() => void vi.mocked(http.session).mockReset());
const wait = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));
const hello = () => Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0, subject: "alice" });

/** How the page shows the owner of a session that is in no list. */
async function owned(id: string) {
  const Owner = () => h("p", null, String(useOwns(id)));
  const box = document.createElement("div");
  const root = createRoot(box);
  client.connect();
  hello();
  sessionList.set({ rows: [], next: undefined, loaded: true });
  sessionsOf(client).follow(id);
  await act(async () => root.render(h(CountersignProvider, { client, http: new CountersignHttp(), children: h(Owner) })));
  Socket.last.receive({ type: "run_status", status: "running", pending: [], session_id: id, seq: 1 });
  await wait(100);
  const end = async () => {
    await act(async () => root.unmount());
    client.close();
  };
  return { box, end };
}
const asked = () => vi.mocked(http.session).mock.calls.length;

test("who owns a session that is in no list is asked again, where the server could not be reached", async () => {
  vi.mocked(http.session).mockRejectedValueOnce(new TypeError("fetch failed")).mockResolvedValue({ session_id: "s", subject: "alice" } as never);
  const { box, end } = await owned("s");
  expect([box.textContent, asked()]).toEqual(["false", 1]);
  await act(async () => Socket.last.onclose?.());
  await wait(2000);
  await act(async () => hello());
  await wait(100);
  expect([box.textContent, asked()]).toEqual(["true", 2]);
  await end();
});

test("whose a session is that began anew under its id is asked again", async () => {
  vi.mocked(http.session).mockResolvedValueOnce({ session_id: "n", subject: "alice" } as never).mockResolvedValue({ session_id: "n", subject: "bob" } as never);
  const { box, end } = await owned("n");
  expect([box.textContent, asked()]).toEqual(["true", 1]);
  await act(async () => Socket.last.receive({ type: "error", code: "invalid_message", message: "", session_id: "n" }));
  Socket.last.receive({ type: "run_status", status: "running", pending: [], session_id: "n", seq: 1 });
  await wait(100);
  expect([box.textContent, asked()]).toEqual(["false", 2]);
  await end();
});

test("it is asked again a while later, where the connection stays, unless the answer would be the same", async () => {
  vi.mocked(http.session).mockRejectedValueOnce(new CountersignError("internal", "Once.", { status: 500 })).mockResolvedValue({ session_id: "t", subject: "alice" } as never);
  const { box, end } = await owned("t");
  expect([box.textContent, asked()]).toEqual(["false", 1]);
  await wait(6_000);
  expect([box.textContent, asked()]).toEqual(["true", 2]);
  await end();
  vi.mocked(http.session).mockReset().mockRejectedValue(new CountersignError("session_not_found", "None.", { status: 404 }));
  const other = await owned("u");
  await wait(60_000);
  expect([other.box.textContent, asked()]).toEqual(["false", 1]);
  await other.end();
});
