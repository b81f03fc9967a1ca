// @vitest-environment jsdom
import { expect, test, vi } from "vitest";
import type { ListedApproval } from "@countersign/client";
import "./page.js";
import { Socket } from "./socket.js";

const told: string[] = [];
class Told {
  static permission = "granted";
  constructor(_: string, { tag = "" }: NotificationOptions) {
    told.push(tag);
  }
  close() {}
}
vi.stubGlobal("WebSocket", Socket);
vi.stubGlobal("Notification", Told);
vi.stubGlobal("isSecureContext", true);
localStorage.setItem("countersign:notify", "on");
const { client, http } = await import("../src/state/connection.js");
const { waiting } = await import("../src/state/lists.js");
const { startNotifying } = await import("../src/state/notify.js");

const request = (n: number) => ({ approvalKey: `s_${n}`, sessionId: "s", kind: "approval", actions: [], reviewConfigs: [], updates: [] }) as unknown as ListedApproval;
const read = async (...ns: number[]) => {
  vi.spyOn(http, "waiting").mockResolvedValue({ approvals: ns.map(request), next: undefined });
  await waiting.refresh();
};

test("u4: what is new is told of, also where the inbox was read before anybody watched it", async () => {
  Object.defineProperty(document, "hidden", { value: true, configurable: true });
  await read(1);
  const stop = startNotifying((key) => key);
  // Whose requests these are is not known before the server has said who this is.
  await read(1, 9);
  client.connect();
  Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });
  expect(told).toEqual([]);
  await read(1, 9, 2);
  expect(told).toEqual(["s_2"]);
  stop();
});
