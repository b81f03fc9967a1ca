// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, expect, test, vi } from "vitest";
import { CountersignHttp, type ApprovalView, type ConnectionState, type CountersignClient } from "@countersign/client";
import { CountersignProvider } from "@countersign/react";
import { useDates } from "../src/state/dates.js";

const server = vi.hoisted(() => ({ approvals: vi.fn() }));
vi.mock("../src/state/connection.js", () => ({ http: server }));

/** A connection of which only the state matters. */
const listeners = new Set<() => void>();
let state: ConnectionState = "open";
const client = {
  get state() {
    return state;
  },
  on: (_: string, listener: () => void) => (listeners.add(listener), () => listeners.delete(listener)),
} as unknown as CountersignClient;
const become = (now: ConnectionState) =>
  act(async () => {
    state = now;
    for (const listener of listeners) listener();
  });

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
vi.useFakeTimers();
afterEach(() => void server.approvals.mockReset());
const wait = (ms = 10) => act(() => vi.advanceTimersByTimeAsync(ms));

const createdAt = "2027-01-01T00:00:00Z";

/** When a request was made, as a card shows it after the first attempt to read it has failed. */
async function card(approvalKey: string) {
  const approval: ApprovalView = { approvalKey, sessionId: "s", kind: "approval", actions: [], reviewConfigs: [], complete: true, updates: [] };
  server.approvals.mockRejectedValueOnce(new TypeError("fetch failed")).mockResolvedValue({ approvals: [{ ...approval, createdAt }], next: undefined });
  const When = () => h("p", null, useDates(approval, true).createdAt ?? "unknown");
  const box = document.createElement("div");
  const root = createRoot(box);
  await act(async () => root.render(h(CountersignProvider, { client, http: new CountersignHttp(), children: h(When) })));
  await wait();
  await wait();
  return { shown: () => [box.textContent, server.approvals.mock.calls.length], end: () => act(async () => root.unmount()) };
}

test("times that the server could not be asked for are asked for again a while later", async () => {
  const { shown, end } = await card("s_2");
  await wait(4_000);
  expect(shown()).toEqual(["unknown", 1]);
  await wait(2_000);
  await wait();
  expect(shown()).toEqual([createdAt, 2]);
  await end();
});

test("times that the server could not be asked for are asked for again once it is back, and only then", async () => {
  const { shown, end } = await card("s_1");
  expect(shown()).toEqual(["unknown", 1]);
  await become("reconnecting");
  await wait(10_000);
  expect(shown()).toEqual(["unknown", 1]);
  await become("open");
  await wait();
  expect(shown()).toEqual([createdAt, 2]);
  await end();
});

test("the times of what is pending are read to the end, though pages of long requests are short", async () => {
  const shown = (approvalKey: string): ApprovalView => ({ approvalKey, sessionId: "long", kind: "approval", actions: [], reviewConfigs: [], complete: true, updates: [] });
  const row = (approvalKey: string) => ({ ...shown(approvalKey), createdAt });
  server.approvals.mockImplementation(async ({ cursor }: { cursor?: string }) =>
    cursor === undefined ? { approvals: [row("long_2")], next: "n" } : { approvals: [row("long_1")], next: undefined },
  );
  const When = () => h("p", null, useDates(shown("long_1"), true).createdAt ?? "unknown");
  const box = document.createElement("div");
  const root = createRoot(box);
  await act(async () => root.render(h(CountersignProvider, { client, http: new CountersignHttp(), children: h(When) })));
  await wait();
  await wait();
  expect([box.textContent, server.approvals.mock.calls.length]).toEqual([createdAt, 2]);
  await act(async () => root.unmount());
});
