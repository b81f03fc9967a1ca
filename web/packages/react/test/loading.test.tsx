// @vitest-environment jsdom
import { act } from "react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { CountersignHttp } from "@countersign/client";
import { sessionsOf, useSession } from "../src/index.js";
import { connected, show, Socket } from "./page.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());
const wait = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));
const refuse = (code: string, id = "s") => act(async () => Socket.last.receive({ type: "error", code, message: `it is ${code}`, session_id: id }));
const running = (seq = 1) => ({ type: "run_status", status: "running", pending: [], session_id: "s", seq });

function Chat({ id = "s" }) {
  const { loading, missing, deleted, error, view } = useSession(id);
  return <p>{[loading ? "loading" : "read", missing && "missing", deleted && "deleted", error && `${error.code}: ${error.message}`, view.status].filter(Boolean).join(" ")}</p>;
}

/** A server whose session has this status, and how often it was asked. */
function server(status: string) {
  const asked = vi.fn();
  const fetch = (async (url: string) => (asked(url), Response.json({ session_id: "s", status }))) as typeof globalThis.fetch;
  return { asked, http: new CountersignHttp({ fetch }) };
}

it("u2: a session that is not read yet is told from one that is empty, which is asked once", async () => {
  const { asked, http } = server("idle");
  const { page } = await show(<Chat />, { http });
  expect(page.textContent).toBe("loading");
  await wait(1_000);
  expect([page.textContent, asked.mock.calls]).toEqual(["read", [["/v1/sessions/s"]]]);
  Socket.last.receive(running());
  await wait(5_000);
  expect([page.textContent, asked.mock.calls.length]).toEqual(["read running", 1]);
});

it("u2: one of which something comes is not asked about, and one whose events are on their way is loading", async () => {
  const quick = server("running");
  const { page } = await show(<Chat />, { http: quick.http });
  Socket.last.receive(running());
  await wait(2_000);
  expect([page.textContent, quick.asked.mock.calls]).toEqual(["read running", []]);
  const slow = server("running");
  const other = await show(<Chat />, { http: slow.http });
  await wait(2_000);
  expect([other.page.textContent, slow.asked.mock.calls.length]).toEqual(["loading", 1]);
});

it("u2: a session that cannot be followed says why, until it can", async () => {
  const { page } = await show(<Chat />, server("running"));
  for (const code of ["too_many_followed", "internal", "store_closed"]) {
    await refuse(code);
    expect(page.textContent).toBe(`loading ${code}: it is ${code}`);
  }
  Socket.last.receive(running());
  await wait(20);
  expect(page.textContent).toBe("read running");
  // Once it is known it stays on the page.
  await refuse("forbidden");
  expect(page.textContent).toBe("read forbidden: it is forbidden running");
  Socket.last.receive(running(2));
  await wait(20);
  expect(page.textContent).toBe("read running");
});

it("u2: a message that is sent again, since the server does not know of it, is no error of its session", async () => {
  const client = connected();
  const { page } = await show(<Chat />, { client });
  Socket.last.receive(running());
  await wait(20);
  const said = client.sendMessage({ session_id: "s", content: "pay" });
  const { request_id } = Socket.last.sent.at(-1)!;
  await act(async () => Socket.last.receive({ type: "error", code: "outcome_unknown", message: "no answer", session_id: "s", request_id }));
  expect(page.textContent).toBe("read running");
  await act(async () => Socket.last.receive({ type: "ack", session_id: "s", request_id }));
  await said;
});

it("u2: what was refused is forgotten where nothing has happened since it is followed again", async () => {
  const { page } = await show(<Chat />);
  Socket.last.receive(running());
  await wait(20);
  // It is followed again after a second, and refused again.
  await refuse("store_unavailable");
  await wait(1_500);
  await refuse("store_unavailable");
  await wait(1_500);
  expect(page.textContent).toBe("read store_unavailable: it is store_unavailable running");
  await wait(1_000);
  expect(page.textContent).toBe("read running");
});

it("u2: missing and deleted ones are read, and no error", async () => {
  const { page } = await show(<Chat />);
  await refuse("session_not_found");
  expect(page.textContent).toBe("read missing");
  await refuse("session_deleted");
  expect(page.textContent).toBe("read missing deleted");
});

it("u2: of the sessions that are not there only the last twenty are known", async () => {
  const sessions = sessionsOf(connected());
  for (let n = 0; n < 50; n++) {
    const [stop, leave] = [sessions.watch(`s${n}`, () => {}), sessions.follow(`s${n}`)];
    await refuse(n % 2 ? "session_not_found" : "session_deleted", `s${n}`);
    leave();
    stop();
  }
  const known = Array.from({ length: 50 }, (_, n) => n).filter((n) => sessions.get(`s${n}`).missing || sessions.get(`s${n}`).deleted);
  expect(known).toEqual(Array.from({ length: 20 }, (_, n) => n + 30));
  // Nor are those that nobody has looked at.
  for (let n = 0; n < 50; n++) sessions.deleted(`d${n}`);
  expect(Array.from({ length: 50 }, (_, n) => sessions.get(`d${n}`).deleted).filter(Boolean).length).toBe(20);
});
