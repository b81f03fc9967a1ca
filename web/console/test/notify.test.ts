// @vitest-environment jsdom
import { afterEach, expect, test, vi } from "vitest";
import type { ListedApproval } from "@countersign/client";
import "./page.js";
import { Socket } from "./socket.js";

const told: string[] = [];
const closed: string[] = [];
class Told {
  static permission = "granted";
  readonly #tag: string;
  constructor(_: string, { tag = "" }: NotificationOptions) {
    this.#tag = tag;
    told.push(tag);
  }
  close() {
    closed.push(this.#tag);
  }
}
vi.stubGlobal("WebSocket", Socket);
vi.stubGlobal("Notification", Told);
vi.stubGlobal("isSecureContext", true);
localStorage.setItem("countersign:notify", "on");
const { client, http } = await import("../src/state/connection.js");
const { waiting } = await import("../src/state/lists.js");
const { startNotifying } = await import("../src/state/notify.js");

const request = (n: number) => ({ approvalKey: `s_${n}`, sessionId: "s", kind: "approval", actions: [], reviewConfigs: [], updates: [] }) as unknown as ListedApproval;
const serving = (ns: number[], next?: string) => vi.spyOn(http, "pending").mockResolvedValue({ approvals: ns.map(request), next });
const read = async (...ns: number[]) => {
  serving(ns);
  await waiting.refresh();
};
afterEach(() => void told.splice(0));

test("u4: what is new is told of, also where the inbox was read before anybody watched it", async () => {
  Object.defineProperty(document, "hidden", { value: true, configurable: true });
  await read(1);
  const stop = startNotifying((key) => key);
  // The server has to say who this person is before their requests are known.
  await read(1, 9);
  client.connect();
  Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });
  expect(told).toEqual([]);
  await read(1, 9, 2);
  expect(told).toEqual(["s_2"]);
  stop();
});

test("u4: of many that appear at once one notification says how many, for as long as any of them waits", async () => {
  await read(1);
  const stop = startNotifying((key, params) => `${key} ${params?.n ?? ""}`);
  await read(1, 2, 3, 4);
  expect(told).toEqual(["s_2", "s_3", "s_4"]);
  await read(1, 5, 6, 7, 8);
  expect(told.slice(3)).toEqual(["many"]);
  closed.splice(0);
  await read(1, 8);
  expect(closed).toEqual([]);
  await read(1);
  expect(closed).toEqual(["many"]);
  stop();
});

test("u4: what comes to be known only because the list is read further is nothing new", async () => {
  serving([1, 2], "more");
  await waiting.refresh();
  const stop = startNotifying((key) => key);
  // A new one is listed above an old one.
  serving([1, 3, 2, 4, 5]);
  await waiting.loadMore();
  expect(told).toEqual(["s_3"]);
  // Now that all is read, the last is new, too.
  await read(1, 3, 2, 4, 5, 6);
  expect(told).toEqual(["s_3", "s_6"]);
  stop();
});
