/** A WebSocket under the test's control, and clients that use it. */
import { CountersignClient } from "../../src/index.js";

export class FakeSocket {
  static all: FakeSocket[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((m: { data: string }) => void) | null = null;
  onclose: ((event?: { code: number; reason: string }) => void) | null = null;
  sent: Record<string, unknown>[] = [];
  closed = false;
  bufferedAmount = 0;
  constructor(
    readonly url: string,
    readonly protocols: string[],
  ) {
    FakeSocket.all.push(this);
  }
  send(text: string) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.closed = true;
  }
  receive(frame: object) {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }
  hello(history_id?: string) {
    this.onopen?.();
    this.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 10, history_id });
  }
  die() {
    this.onclose?.();
  }
}

/** The newest socket. */
export const last = () => FakeSocket.all.at(-1)!;
/** A client whose connections are such sockets. */
export const make = (extra = {}) =>
  new CountersignClient({
    url: "ws://test/v1/ws",
    webSocket: FakeSocket as never,
    backoff: { firstMs: 100, random: () => 1 },
    isUnauthorized: async () => false,
    ...extra,
  });

/** An event of a session. */
export const event = (seq: number, session_id = "s") => ({ type: "run_status", session_id, seq, status: "running", pending: [] });

/** The parts of a text block of an answer. */
export const blockStart = (seq: number, session_id = "s") => ({ type: "content_block_start", session_id, message_id: "m", index: 0, content_block: { type: "text" }, seq });
export const blockStop = (seq: number, session_id = "s") => ({ type: "content_block_stop", session_id, message_id: "m", index: 0, seq });
export const delta = (text: string, session_id = "s") => ({ type: "content_block_delta", session_id, message_id: "m", index: 0, delta: { type: "text_delta", text } });

/** The numbers of the events that a client emits from now on. */
export const seen = (client: CountersignClient) => {
  const seqs: number[] = [];
  client.on("event", (one) => void ("seq" in one && seqs.push(one.seq!)));
  return seqs;
};
