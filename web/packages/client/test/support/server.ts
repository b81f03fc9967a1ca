/** A server that speaks the protocol, with one order that waits for a person, on a port of its own. */
import type { AddressInfo } from "node:net";
import { WebSocketServer, type WebSocket } from "ws";
import type { ApprovalCommand, ClientCommand, MessageCommand } from "../../src/index.js";

const DIGEST = "d1".repeat(32);
const ARGS = '{"symbol":"VNM","price":1.10,"n":9007199254740993}';

export interface FakeServer {
  url: string;
  /** What clients have sent, as it was written. */
  received: string[];
  /** End every connection, as a network that fails does. */
  drop(): void;
  close(): Promise<void>;
}

/** An event of the one session, with the number of the last numbered one. */
interface Sent {
  seq: number;
  text: string;
}

export async function fakeServer(): Promise<FakeServer> {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1", handleProtocols: () => "countersign.v1" });
  await new Promise((resolve) => server.once("listening", resolve));
  const received: string[] = [];
  const events: Sent[] = [];
  server.on("connection", (socket) => {
    socket.send('{"type":"hello","protocol":"countersign.v1","server":"fake","heartbeat_seconds":15}');
    socket.on("message", (data) => {
      received.push(String(data));
      answer(socket, events, JSON.parse(String(data)) as ClientCommand);
    });
  });
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/v1/ws`,
    received,
    drop: () => server.clients.forEach((client) => client.terminate()),
    close: () => new Promise((resolve) => {
      server.clients.forEach((client) => client.terminate());
      server.close(() => resolve());
    }),
  };
}

function answer(socket: WebSocket, events: Sent[], command: ClientCommand): void {
  if (command.type === "subscribe") {
    return events.filter(({ seq }) => seq > (command.after ?? 0)).forEach(({ text }) => socket.send(text));
  }
  if (command.type !== "message" && command.type !== "approval") return;
  socket.send(JSON.stringify({ type: "ack", request_id: command.request_id, session_id: command.session_id }));
  for (const event of command.type === "message" ? asked(command) : decided(command)) {
    const last = events.at(-1)?.seq ?? 0;
    const seq = event.type === "content_block_delta" ? {} : { seq: last + 1 };
    const text = JSON.stringify({ ...event, session_id: command.session_id, ...seq });
    // Numbers with digits that JavaScript would lose are in the text unchanged.
    events.push({ seq: last, ...seq, text: text.replace('"ARGS"', ARGS) });
    socket.send(events.at(-1)!.text);
  }
}

const asked = ({ session_id }: MessageCommand) => [
  { type: "run_status", status: "running", pending: [] },
  { type: "message_start", message_id: "msg-1", role: "assistant" },
  {
    type: "content_block_start",
    message_id: "msg-1",
    index: 0,
    content_block: {
      type: "approval_request",
      approval_key: `${session_id}_1`,
      kind: "approval",
      actions: [{
        name: "execute_trade", args: "ARGS", tool_use_id: "t1", id: "c1", agent: "trader", args_digest: "a1", digest: DIGEST,
        display: { text: "{\"symbol\": \"VNM\"}", digest: "s1", bytes: 50, warnings: [] },
      }],
      review_configs: [{ require_approval: true, timeout: 300, action_name: "execute_trade", allowed_decisions: ["approve", "reject"] }],
    },
  },
  { type: "content_block_stop", message_id: "msg-1", index: 0 },
  { type: "run_status", status: "awaiting_input", pending: [`${session_id}_1`] },
];

const decided = ({ approval_key, decisions, digest }: ApprovalCommand) => [
  { type: "approval_resolved", approval_key, resolution: "decided", by: null, decisions },
  { type: "run_status", status: "running", pending: [] },
  { type: "content_block_start", message_id: "msg-1", index: 1, content_block: { type: "text" } },
  {
    type: "content_block_delta",
    message_id: "msg-1",
    index: 1,
    delta: { type: "text_delta", text: digest === DIGEST ? "Done as it was shown." : "Who decides what?" },
  },
  { type: "content_block_stop", message_id: "msg-1", index: 1 },
  { type: "message_stop", message_id: "msg-1", stop_reason: "end_turn" },
  { type: "run_status", status: "completed", pending: [] },
];
