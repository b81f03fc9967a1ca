import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeSocket, last, make } from "./support/socket.js";

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.all = [];
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const open = () => {
  const client = make();
  client.connect();
  last().hello();
  return client;
};
const requests = () => last().sent.filter(({ request_id }) => request_id !== undefined);
/** What the requests on the newest connection say, in the order they went out. */
const said = () => requests().map(({ content, text }) => content ?? text);
const idOf = (what: string) => requests().find(({ content, text }) => (content ?? text) === what)!.request_id;
const unknown = (what: string) => last().receive({ type: "error", code: "outcome_unknown", message: "no answer", request_id: idOf(what) });
const ack = (what: string, session_id = "s") => last().receive({ type: "ack", session_id, request_id: idOf(what) });
const refuse = (what: string) => last().receive({ type: "error", code: "session_full", message: "full", request_id: idOf(what) });

describe("r4: a later request does not overtake one of its session whose outcome is unknown", () => {
  it("of two messages, the second waits until the first is stored", async () => {
    const client = open();
    void client.sendMessage({ session_id: "s", content: "first" });
    unknown("first");
    const second = client.sendMessage({ session_id: "s", content: "second" });
    expect(said()).toEqual(["first"]);
    vi.advanceTimersByTime(1000);
    // It may be unknown again, and stored later.
    expect(said()).toEqual(["first", "first"]);
    ack("first");
    expect(said()).toEqual(["first", "first", "second"]);
    ack("second");
    await expect(second).resolves.toMatchObject({ type: "ack" });
    expect([client.unsent, vi.getTimerCount()]).toEqual([0, 1]); // The heartbeat's.
  });

  it("of any kind, also once the first is refused", async () => {
    const client = open();
    const first = client.sendMessage({ session_id: "s", content: "first" });
    unknown("first");
    void client.comment({ session_id: "s", approval_key: "s_1", text: "second" });
    void client.sendMessage({ session_id: "s", content: "third" });
    vi.advanceTimersByTime(1000);
    refuse("first");
    await expect(first).rejects.toMatchObject({ code: "session_full" });
    expect(said()).toEqual(["first", "first", "second", "third"]);
  });

  it("where both are unknown, and the pause of the second is the shorter one", () => {
    const client = open();
    void client.sendMessage({ session_id: "s", content: "first" });
    void client.sendMessage({ session_id: "s", content: "second" });
    vi.spyOn(Math, "random").mockReturnValueOnce(1).mockReturnValueOnce(0);
    unknown("first");
    unknown("second");
    vi.advanceTimersByTime(900);
    expect(said()).toEqual(["first", "second"]);
    vi.advanceTimersByTime(100);
    expect(said()).toEqual(["first", "second", "first"]);
    ack("first");
    expect(said()).toEqual(["first", "second", "first", "second"]);
  });

  it("nor on the next connection, where what was sent before goes out first, and each once", async () => {
    const client = open();
    client.subscribe("s");
    void client.sendMessage({ session_id: "s", content: "first" });
    last().die();
    void client.sendMessage({ session_id: "s", content: "second" });
    client.on("follows", () => void client.sendMessage({ session_id: "s", content: "third" }));
    await vi.advanceTimersByTimeAsync(200);
    last().hello();
    expect(said()).toEqual(["first", "second", "third"]);
  });

  it("nor on the next connection, where the server did not know of the first on the last one", async () => {
    const client = open();
    void client.sendMessage({ session_id: "s", content: "first" });
    unknown("first");
    void client.sendMessage({ session_id: "s", content: "second" });
    last().die();
    await vi.advanceTimersByTimeAsync(200);
    last().hello();
    expect(said()).toEqual(["first"]);
    ack("first");
    expect(said()).toEqual(["first", "second"]);
  });

  it("a decision, which may have a deadline, waits for no pause", () => {
    const client = open();
    void client.sendMessage({ session_id: "s", content: "first" });
    unknown("first");
    void client.sendApproval({ session_id: "s", approval_key: "s_1", decisions: [{ type: "approve" }] });
    expect(said()).toEqual(["first", "first"]);
    ack("first");
    expect(last().sent.at(-1)).toMatchObject({ type: "approval", approval_key: "s_1" });
  });

  it("one of another session waits for nothing", () => {
    const client = open();
    void client.sendMessage({ session_id: "s", content: "first" });
    unknown("first");
    void client.sendMessage({ session_id: "other", content: "elsewhere" });
    expect(said()).toEqual(["first", "elsewhere"]);
  });
});

it("r4: that an attempt was not stored does not end a request whose earlier attempt may be", async () => {
  const client = open();
  const errors: string[] = [];
  client.on("error", ({ code, message }) => errors.push(`${code}: ${message}`));
  const lost = client.sendMessage({ session_id: "s", content: "lost" });
  last().die();
  await vi.advanceTimersByTimeAsync(200);
  last().hello();
  last().receive({ type: "error", code: "store_unavailable", message: "nothing was stored", request_id: idOf("lost") });
  await vi.advanceTimersByTimeAsync(1000);
  expect([said(), errors, client.unsent]).toEqual([["lost", "lost"], [expect.stringMatching(/^outcome_unknown: .*sent again/)], 1]);
  ack("lost");
  await expect(lost).resolves.toMatchObject({ type: "ack" });
  // A first attempt has no earlier one.
  const first = client.sendMessage({ session_id: "s", content: "first" });
  last().receive({ type: "error", code: "store_unavailable", message: "nothing was stored", request_id: idOf("first") });
  await expect(first).rejects.toMatchObject({ code: "store_unavailable" });
});
