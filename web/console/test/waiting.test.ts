// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { expect, test, vi } from "vitest";
import type { ListedApproval } from "@countersign/client";
import { show } from "./page.js";
import { Socket } from "./socket.js";

vi.stubGlobal("WebSocket", Socket);
const { client, http } = await import("../src/state/connection.js");
const { waiting, WAITING } = await import("../src/state/lists.js");
const { useMayAudit, useWaiting, useWaits } = await import("../src/state/me.js");

const request = (n: number, role: string) =>
  ({ approvalKey: `s_${n}`, sessionId: "s", subject: "bob", kind: "approval", actions: [], reviewConfigs: [{ role }], updates: [] }) as unknown as ListedApproval;

test("u4: nobody's requests count as mine before the server has said who I am", async () => {
  vi.spyOn(http, "pending").mockResolvedValue({ approvals: [request(1, "admin"), request(2, "user")], next: undefined });
  function Counted() {
    const { mine, others, loading } = useWaiting();
    return h("p", null, [String(loading), mine.length, others.length, useWaits() ?? "-"].join(" "));
  }
  client.connect();
  const { page } = await show(h(Counted));
  // A connection that never opens is not waited for.
  await act(() => waiting.refresh());
  expect([waiting.get().requests.length, page.textContent]).toEqual([2, "true 0 0 -"]);
  await act(async () => Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0, subject: "alice", roles: ["admin"] }));
  expect(page.textContent).toBe("false 1 1 1");
  client.close();
});

test("u4: what is mine follows the roles that I hold now, which the server tells on the same connection", async () => {
  const read = vi.spyOn(http, "pending").mockResolvedValue({ approvals: [request(4, "admin"), request(5, "lead"), request(6, "lead")], next: undefined });
  const hello = (...roles: string[]) =>
    act(async () => Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0, subject: "alice", roles }));
  function Mine() {
    const { mine } = useWaiting();
    return h("p", null, [...mine.map((one) => one.approvalKey), useMayAudit()].join(" "));
  }
  client.connect();
  // As the page does from its beginning.
  const stop = waiting.follow(WAITING);
  const { page } = await show(h(Mine));
  await hello("admin");
  expect(page.textContent).toBe("s_4 false");
  const [before, sent] = [read.mock.calls.length, Socket.last.sent.length];
  await hello("lead", "auditor");
  expect([page.textContent, read.mock.calls.length]).toEqual(["s_5 s_6 true", before + 1]);
  expect([Socket.last.sent.length, client.state]).toEqual([sent, "open"]);
  stop();
  client.close();
});
