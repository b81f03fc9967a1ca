import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { FakeSocket, last, make } from "./support/socket.js";

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.all = [];
});
afterEach(() => void vi.useRealTimers());

const open = () => {
  const client = make();
  client.connect();
  last().hello();
  return client;
};
/** The requests that went out on the newest connection. */
const requests = () => last().sent.filter(({ request_id }) => request_id !== undefined);
const unknown = (request_id: unknown) => last().receive({ type: "error", code: "outcome_unknown", message: "no answer", request_id });
const ack = (request_id: unknown) => last().receive({ type: "ack", session_id: "s", request_id });

it("r4: what the server does not know of is sent again as it is, until it says what became of it", async () => {
  const client = open();
  const said = client.sendMessage({ session_id: "s", content: "pay" });
  for (let times = 1; times <= 3; times++) {
    expect(requests()).toHaveLength(times);
    unknown(requests()[0]?.request_id);
    vi.advanceTimersByTime(400);
    expect([requests().length, client.unsent]).toEqual([times, 1]);
    vi.advanceTimersByTime(10_000);
  }
  expect(new Set(requests().map((frame) => JSON.stringify(frame))).size).toBe(1);
  ack(requests()[0]?.request_id);
  await expect(said).resolves.toMatchObject({ type: "ack" });
  vi.advanceTimersByTime(9_000);
  expect(requests()).toHaveLength(4);
});

it("r4: that the server does not know of a request is told once, and its session is followed from the start once it does", async () => {
  const client = open();
  const errors = vi.fn();
  client.on("error", errors);
  const said = client.sendMessage({ session_id: "s", content: "pay" });
  const id = requests()[0]?.request_id;
  for (let times = 1; times <= 3; times++) {
    unknown(id);
    vi.advanceTimersByTime(10_400);
  }
  expect(errors.mock.calls).toEqual([[expect.objectContaining({ code: "outcome_unknown", request_id: id })]]);
  // It was stored the first time, and nobody received the events that it has caused since.
  ack(id);
  await said;
  expect(last().sent.at(-1)).toEqual({ type: "subscribe", session_id: "s", after: 0 });
  client.close();
});

it("r4: a listener that closes the client when it is told of that leaves nothing behind", async () => {
  const client = open();
  client.on("error", () => client.close());
  const said = client.sendMessage({ session_id: "s", content: "pay" });
  unknown(requests()[0]?.request_id);
  await expect(said).rejects.toMatchObject({ code: "closed" });
  expect([vi.getTimerCount(), client.unsent]).toEqual([0, 0]);
});

it("r4: on the next connection it is sent once, and its refusal is the end of it", async () => {
  const client = open();
  const said = client.comment({ session_id: "s", approval_key: "s_1", text: "Is it right?" });
  const id = requests()[0]?.request_id;
  unknown(id);
  last().die();
  await vi.advanceTimersByTimeAsync(200);
  last().hello();
  vi.advanceTimersByTime(900);
  expect(requests().map(({ request_id }) => request_id)).toEqual([id]);
  last().receive({ type: "error", code: "approval_already_resolved", message: "late", request_id: id });
  await expect(said).rejects.toMatchObject({ code: "approval_already_resolved" });
});

it("a client that is closed sends nothing again", async () => {
  const client = open();
  const said = client.sendApproval({ session_id: "s", approval_key: "s_1", decisions: [{ type: "approve" }] });
  unknown(requests()[0]?.request_id);
  client.close();
  await expect(said).rejects.toMatchObject({ code: "closed" });
  expect(vi.getTimerCount()).toBe(0);
});
