// @vitest-environment jsdom
import { expect, test, vi } from "vitest";
import { Socket } from "./socket.js";

vi.stubGlobal("WebSocket", Socket);
const { client } = await import("../src/state/connection.js");
const { outgoingOf, sendMessage, sessions } = await import("../src/state/sessions.js");

/** A user's message as events. */
const said = (message_id: string, text: string, seq: number) =>
  [
    { type: "message_start", role: "user", seq },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" }, seq: seq + 1 },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text } },
    { type: "content_block_stop", index: 0, seq: seq + 2 },
    { type: "message_stop", seq: seq + 3 },
  ].map((event) => ({ ...event, message_id, session_id: "s" }));

const messages = (n: number) => vi.waitFor(() => expect(sessions.get("s").view.messages).toHaveLength(n), 20_000);

test("u1: a message is in view from when it is sent until its own event comes, and once", async () => {
  client.connect();
  Socket.last.onopen?.();
  Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });
  sessions.follow("s");
  Socket.last.receive(...said("m1", "Buy", 1));
  await messages(1);
  const shown = () => outgoingOf("s").get().messages.map((message) => message.text);
  const sent = sendMessage("s", "Buy", []);
  expect(shown()).toEqual(["Buy"]);
  const command = Socket.last.sent.find(({ type }) => type === "message");
  Socket.last.receive({ type: "ack", request_id: command?.request_id, session_id: "s" });
  await sent;
  expect(shown()).toEqual(["Buy"]);
  Socket.last.receive(...said("m2", "Buy", 5));
  await messages(2);
  expect(shown()).toEqual([]);
});

test("u1: of a session that its server has lost nothing that was stored is shown as on its way, and what is not yet stays", async () => {
  const shown = () => outgoingOf("s").get().messages.map((message) => message.text);
  const kept = () => sessionStorage.getItem("countersign:queued:s") !== null;
  const queued = sendMessage("s", "Then sell", [], { onPending: "queue" });
  Socket.last.receive({ type: "ack", request_id: Socket.last.sent.at(-1)?.request_id, session_id: "s" });
  await queued;
  void sendMessage("s", "Wait", []).catch(() => {});
  expect([shown(), kept()]).toEqual([["Then sell", "Wait"], true]);
  Socket.last.receive({ type: "error", code: "session_not_found", message: "", session_id: "s" });
  expect([shown(), kept()]).toEqual([["Wait"], false]);
  client.close();
});
