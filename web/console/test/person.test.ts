// @vitest-environment jsdom
import { beforeEach, expect, test, vi } from "vitest";
import { readTab, writeLocal, writeTab } from "../src/lib/storage.js";
import { Socket } from "./socket.js";

const reload = vi.fn();
vi.stubGlobal("WebSocket", Socket);
vi.stubGlobal("location", { hash: "", reload });
writeTab("token", "alice-token");
const { client, signOut } = await import("../src/state/connection.js");

const OF_SOMEBODY = ["draft:s", "card:s_1", "question:s_1", "resume:s_1", "talk:s_1", "queued:s", "voted:s_1"];
const left = () => OF_SOMEBODY.filter((key) => readTab(key) !== null);
const hello = (subject: string) => Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0, subject });

beforeEach(() => {
  client.close();
  client.connect();
  hello("alice");
  reload.mockClear();
  for (const key of OF_SOMEBODY) writeTab(key, '"mine"');
  writeLocal("later", '{"s_1":9e15}');
});

test("u1: who signs in next finds nothing that somebody else has written, and their own again", () => {
  hello("alice");
  expect(left()).toEqual(OF_SOMEBODY);
  expect(reload).not.toHaveBeenCalled();
  hello("bob");
  expect(left()).toEqual([]);
  expect(localStorage.getItem("countersign:later")).toBeNull();
  expect(readTab("token")).toBe("alice-token");
  expect(client.state).toBe("closed");
  expect(reload).toHaveBeenCalledOnce();
});

test("u1: who signs out leaves nothing in the tab", () => {
  signOut();
  expect(Object.keys(sessionStorage)).toEqual([]);
  expect(localStorage.getItem("countersign:later")).toBeNull();
  expect(reload).toHaveBeenCalled();
});
