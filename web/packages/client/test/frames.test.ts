import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FRAME_BYTES, MESSAGE_FRAME_BYTES } from "../src/protocol.js";
import { FakeSocket, last, make } from "./support/socket.js";

beforeEach(() => {
  FakeSocket.all = [];
  vi.useFakeTimers();
});
afterEach(() => void vi.useRealTimers());

const opened = () => {
  const client = make();
  client.connect();
  last().hello();
  return client;
};
const edit = (args: unknown) => ({ session_id: "s", approval_key: "s_1", decisions: [{ type: "edit" as const, edited_action: { name: "pay", args: args as never } }] });
const idOf = (index: number) => last().sent.at(index)!.request_id as string;
const ack = (request_id: string) => last().receive({ type: "ack", request_id, session_id: "s" });
const unread = (code: string) => last().receive({ type: "error", code, message: "the frame is not valid JSON" });

describe("u2: what the server could not read", () => {
  it("has the server's bounds", () => {
    const limits = readFileSync(new URL("../../../../crates/core/src/limits.rs", import.meta.url), "utf8");
    expect(limits).toContain("pub const FRAME_BYTES: usize = 1024 * 1024;");
    expect(limits).toContain("pub const MESSAGE_FRAME_BYTES: usize = 9 * 1024 * 1024;");
    expect([FRAME_BYTES, MESSAGE_FRAME_BYTES]).toEqual([1 << 20, 9 << 20]);
  });

  it("is refused here if it is too large, so that nothing else waits behind it", async () => {
    const client = opened();
    const large = client.sendMessage({ session_id: "s", content: "x".repeat(MESSAGE_FRAME_BYTES) });
    await expect(large).rejects.toMatchObject({ code: "too_large", message: expect.stringContaining("at most 9437184 bytes as a frame, not 9437") });
    // In bytes, not in characters.
    await expect(client.comment({ session_id: "s", approval_key: "s_1", text: "é".repeat(FRAME_BYTES / 2) })).rejects.toMatchObject({ code: "too_large" });
    expect(last().sent).toEqual([]);
    expect(client.unsent).toBe(0);
    void client.sendMessage({ session_id: "s", content: "é".repeat(FRAME_BYTES) });
    void client.comment({ session_id: "s", approval_key: "s_1", text: "é".repeat(FRAME_BYTES / 2 - 200) });
    expect(last().sent.map(({ type }) => type)).toEqual(["message", "comment"]);
  });

  it("is refused here if no JSON in UTF-8 can carry it, also before there is a connection", async () => {
    const client = make();
    const circle: Record<string, unknown> = {};
    circle.again = circle;
    await expect(client.sendApproval(edit(circle))).rejects.toMatchObject({ code: "bad_json" });
    await expect(client.sendMessage({ session_id: "s", content: "a cut emoji \ud83d" })).rejects.toMatchObject({ code: "bad_json", message: expect.stringContaining("lone surrogate") });
    await expect(client.sendApproval(edit({ "\udc00": 1 }))).rejects.toMatchObject({ code: "bad_json" });
    const whole = "😀 \\ud83d \\\\ud83d \" \n";
    void client.sendMessage({ session_id: "s", content: whole });
    client.connect();
    last().hello();
    expect(last().sent.map(({ content }) => content)).toEqual([whole]);
  });

  it("says of a session that no frame can name that there is none, and sends nothing", () => {
    const client = make();
    const errors = vi.fn();
    client.on("error", errors);
    client.subscribe("\ud800");
    client.connect();
    last().hello();
    expect(last().sent).toEqual([]);
    expect(errors).toHaveBeenCalledWith(expect.objectContaining({ code: "invalid_session_id", session_id: "\ud800" }));
  });

  it("rejects, of an error that names no request, the first that has no answer, and no other", async () => {
    const client = opened();
    const errors = vi.fn();
    client.on("error", errors);
    const settled: string[] = [];
    const note = (name: string, sent: Promise<unknown>) => void sent.then(() => settled.push(`${name} ok`), (e: { code: string }) => settled.push(`${name} ${e.code}`));
    note("first", client.sendApproval(edit({})));
    note("deep", client.sendApproval(edit({ deep: true })));
    note("cancel", client.cancel("s"));
    note("third", client.sendApproval(edit({})));
    const [first, , cancel, third] = [0, 1, 2, 3].map(idOf);
    ack(first!);
    unread("bad_json");
    ack(cancel!);
    await vi.advanceTimersByTimeAsync(0);
    expect(settled).toEqual(["first ok", "deep bad_json", "cancel ok"]);
    expect(client.unsent).toBe(1);
    expect(errors).not.toHaveBeenCalled();
    last().die();
    await vi.advanceTimersByTimeAsync(1000);
    last().hello();
    expect(last().sent.map(({ request_id }) => request_id)).toEqual([third]);
    unread("too_large");
    await vi.advanceTimersByTimeAsync(0);
    expect(settled.at(-1)).toBe("third too_large");
    // It can be about none of our requests.
    unread("bad_json");
    expect(errors).toHaveBeenCalledTimes(1);
  });

  it("waits longer and longer while the server greets, and closes before it has answered anything", async () => {
    const client = opened();
    void client.sendMessage({ session_id: "s", content: "hi" });
    for (const pause of [100, 200, 400]) {
      last().die();
      const before = FakeSocket.all.length;
      await vi.advanceTimersByTimeAsync(pause - 1);
      expect(FakeSocket.all).toHaveLength(before);
      await vi.advanceTimersByTimeAsync(1);
      expect(FakeSocket.all).toHaveLength(before + 1);
      last().hello();
    }
  });
});

describe("u2: what the client cannot read", () => {
  it.each([
    ["a page", "<html>"],
    ["nothing", ""],
    ["null", "null"],
    ["a list", "[]"],
    ["a text", '"hello"'],
    ["an object without a type", "{}"],
    ["an object of another type", '{"type":1}'],
    ["a part", '{"type":"pong"'],
    ["what is too deep", "[".repeat(100_000)],
  ])("ends the connection, and not the program: %s", async (_, text) => {
    const client = opened();
    const errors = vi.fn();
    client.on("error", errors);
    client.subscribe("s", 7);
    const sent = client.comment({ session_id: "s", approval_key: "s_1", text: "Ours?" });
    const broken = last();
    broken.onmessage?.({ data: text });
    expect(errors).toHaveBeenCalledExactlyOnceWith({ type: "error", code: "bad_json", message: expect.stringContaining("is not an event") });
    expect([client.state, broken.closed]).toEqual(["reconnecting", true]);
    await vi.advanceTimersByTimeAsync(100);
    last().hello();
    expect(last().sent.map(({ type }) => type)).toEqual(["subscribe", "comment"]);
    ack(idOf(1));
    await expect(sent).resolves.toMatchObject({ type: "ack" });
    client.close();
  });
});
