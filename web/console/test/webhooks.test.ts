// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { CountersignError, type FailedMessage, type Webhook } from "@countersign/client";
import { WebhooksPage } from "../src/components/webhooks/WebhooksPage.js";
import { catalogues } from "../src/i18n/all.js";
import { announcement } from "../src/lib/announce.js";
import { nextOf, positionOf, reader, spans } from "../src/lib/webhooks.js";
import { Socket } from "./socket.js";
import { button, click, show } from "./page.js";

vi.stubGlobal("WebSocket", Socket);
const { client, http } = await import("../src/state/connection.js");

const AT = "2026-01-01T00:00:00Z";
const message = (n: number, next_at?: string): FailedMessage => ({ n, attempts: 1, ...(next_at === undefined ? {} : { next_at }), tried_at: AT, message: "503 Service Unavailable" });
const record = (n: number) => ({ n, prev: "p", hash: "h", body: { event: "requested", at: AT, session_id: "s", approval_key: `s_${n}`, kind: "approval", actions: [{ name: "pay" }] } }) as never;

test("u4: records are looked up together where they are near each other, and no span is longer than it must be", () => {
  expect(spans([])).toEqual([]);
  expect(spans([7])).toEqual([{ cursor: 6, limit: 1 }]);
  expect(spans([3, 5, 52, 53, 900])).toEqual([
    { cursor: 2, limit: 50 },
    { cursor: 52, limit: 1 },
    { cursor: 899, limit: 1 },
  ]);
});

test("u4: what a message is about is read once, and what this person may not read is not asked for again", async () => {
  const failedMessages = vi.fn(async () => ({ failed: [message(2), message(4)], next: "4" }));
  // Number 4 belongs to another tenant, so the log continues with a later one.
  const audit = vi.fn(async () => ({ records: [record(2), record(9)], next: undefined }));
  const read = reader({ failedMessages, audit } as never, "desk");
  const { rows, next } = await read(undefined, 0);
  expect(next).toBe("4");
  expect(rows.map(({ n, about }) => [n, about?.request])).toEqual([[2, "s_2"], [4, undefined]]);
  await read(undefined, 45);
  await read("4", 0);
  expect(audit.mock.calls).toEqual([[{ cursor: 1, limit: 3 }]]);
  expect(failedMessages.mock.calls.map(([, query]: any) => query)).toEqual([{ limit: 20 }, { limit: 45 }, { cursor: "4", limit: 20 }]);
});

test("u4: r9: what a message is about is found though a page of long records ends early", async () => {
  const failedMessages = vi.fn(async () => ({ failed: [message(2), message(4)], next: undefined }));
  const audit = vi.fn(async ({ cursor }: { cursor: number }) =>
    cursor < 2 ? { records: [record(2)], next: 2 } : { records: [record(4)], next: undefined });
  const { rows } = await reader({ failedMessages, audit } as never, "desk")(undefined, 0);
  expect(rows.map(({ n, about }) => [n, about?.request])).toEqual([[2, "s_2"], [4, "s_4"]]);
});

test("u4: when a message is attempted next, in words", () => {
  const now = Date.parse(AT);
  const later = "2026-01-01T00:05:00Z";
  expect(nextOf(message(1), true, now)).toBe("webhooks.next.never");
  expect(nextOf(message(1, later), true, now)).toBe("webhooks.next.start");
  expect(nextOf(message(1, AT), false, now)).toBe("webhooks.next.now");
  expect(nextOf(message(1, later), false, now)).toBe("webhooks.next.later");
});

test("u4: how far a webhook is, in words", () => {
  const at = (cursor: number | undefined, newest?: number) => positionOf({ cursor } as Webhook, newest);
  expect(at(undefined, 3).key).toBe("webhooks.cursorNone");
  expect(at(3, 3)).toEqual({ key: "webhooks.cursorAt", params: { n: 3 } });
  // This person may read no record.
  expect(at(3).key).toBe("webhooks.cursorAt");
  expect(at(3, 5)).toEqual({ key: "webhooks.cursorOf", params: { n: 3, newest: 5 } });
});

describe("u1 u4: the page", () => {
  /** The messages that did not arrive at the only webhook. */
  let failed: FailedMessage[];
  let gone: boolean;
  const desk = (): Webhook => ({
    name: "desk", host: "desk.example.com", format: "standard", events: ["approval.requested"], status: gone ? "gone" : "active",
    cursor: 2, waiting: failed.filter((one) => one.next_at !== undefined).length, dead: failed.filter((one) => one.next_at === undefined).length,
    ...(failed.length > 0 ? { last_failed: failed.at(-1)! } : {}),
  });
  const webhooks = vi.spyOn(http, "webhooks");
  const one = vi.spyOn(http, "retryFailedMessage");
  const all = vi.spyOn(http, "retryFailedMessages");
  const forget = vi.spyOn(http, "forgetWebhook");
  const refused = (code: string) => new CountersignError(code as never, "Because.");
  const soon = () => act(() => vi.advanceTimersByTimeAsync(5_100));
  const texts = catalogues.en;

  client.connect();
  beforeEach(async () => {
    vi.useFakeTimers();
    HTMLDialogElement.prototype.showModal = () => {};
    HTMLDialogElement.prototype.close = () => {};
    failed = [message(1), message(2)];
    gone = false;
    announcement.set("");
    webhooks.mockReset().mockImplementation(async () => [desk()]);
    one.mockReset();
    all.mockReset();
    forget.mockReset();
    vi.spyOn(http, "audit").mockImplementation(async () => ({ records: [record(2), record(1)], next: undefined }));
    vi.spyOn(http, "failedMessages").mockImplementation(async () => ({ failed, next: undefined }));
    Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });
  });
  afterEach(() => void vi.useRealTimers());

  const open = async () => {
    const { page } = await show(h(WebhooksPage, { onMenu: () => {} }));
    const labelled = (label: string) => page.querySelector<HTMLButtonElement>(`[aria-label="${label}"]`);
    await click(page.querySelector("[aria-expanded]"));
    return { page, labelled, rows: () => page.querySelectorAll(".audit-row") };
  };

  test("a message is sent again once, however often that is pressed, and what comes of it is shown and said", async () => {
    let answer!: () => void;
    one.mockImplementation(() => new Promise((resolve) => (answer = () => resolve({ retried: 1 }))));
    const { page, labelled, rows } = await open();
    expect(rows()[0]!.textContent).toContain("503 Service Unavailable");
    expect([...rows()[0]!.querySelectorAll("a")].map((link) => link.getAttribute("href"))).toEqual(["#/s/s", "#/inbox?open=s_1"]);
    const send = labelled("Send again: record 1")!;
    send.focus();
    await act(async () => {
      send.click();
      send.click();
    });
    await click(send);
    expect(one.mock.calls).toEqual([["desk", 1]]);
    failed = [message(1, AT), message(2)];
    await act(async () => answer());
    expect(announcement.get()).toBe("desk: messages to be sent again: 1.");
    expect(rows()[0]!.textContent).toContain(texts["webhooks.next.now"]);
    // It arrives without a retry; its button had the focus.
    failed = [message(2)];
    await soon();
    expect(rows()).toHaveLength(1);
    expect(document.activeElement).toBe(page.querySelector(".webhook-list"));
  });

  test("all dead letters are sent again, and that nothing is left is said", async () => {
    all.mockResolvedValue({ retried: 2 });
    const { page, labelled } = await open();
    failed = failed.map((before) => ({ ...before, next_at: AT }));
    await click(labelled("Send all again: desk"));
    expect(all.mock.calls).toEqual([["desk"]]);
    expect(announcement.get()).toBe("desk: messages to be sent again: 2.");
    expect(labelled("Send all again: desk")).toBeNull();
    failed = [];
    await soon();
    expect(announcement.get()).toBe("desk: no undelivered messages are left.");
    expect(page.textContent).toContain(texts["webhooks.none"]);
    expect(labelled("Drop undelivered: desk")).toBeNull();
  });

  test("what was refused is told with its reason, can be tried again, and what has changed meanwhile is shown", async () => {
    one.mockRejectedValueOnce(refused("store_unavailable")).mockResolvedValue({ retried: 1 });
    const { page, labelled, rows } = await open();
    failed = [message(2)];
    await click(labelled("Send again: record 1"));
    expect(rows()).toHaveLength(1);
    expect(page.querySelector("[role=alert]")!.textContent).toContain("Because.");
    await click(button(page, "app.retry"));
    expect(one).toHaveBeenCalledTimes(2);
    expect(page.querySelector("[role=alert]")).toBeNull();
  });

  test("what is dropped is named before, and nothing is dropped by the first press", async () => {
    failed = [message(1, AT), message(2)];
    gone = true;
    forget.mockRejectedValueOnce(refused("store_unavailable")).mockResolvedValue({ dropped: 2 });
    const { page, labelled } = await open();
    await click(labelled("Drop undelivered: desk"));
    const dialog = page.querySelector("dialog")!;
    expect(dialog.textContent).toContain("lost for good: 2 (to be attempted again: 1; dead letters: 1).");
    expect(dialog.textContent).toContain(texts["webhooks.dropGone"]);
    expect(document.activeElement).toBe(button(dialog, "decide.back"));
    expect(forget).not.toHaveBeenCalled();
    await click(button(dialog, "webhooks.dropConfirm"));
    expect(dialog.querySelector("[role=alert]")!.textContent).toContain("Because.");
    failed = [];
    gone = false;
    await click(button(dialog, "webhooks.dropConfirm"));
    expect(forget.mock.calls).toEqual([["desk"], ["desk"]]);
    expect(page.querySelector("dialog")).toBeNull();
    expect(announcement.get()).toBe("desk: messages dropped: 2.");
    await soon();
    expect(announcement.get()).toBe("desk: messages dropped: 2.");
  });

  test("whoever may not see them is told so, and the server is not asked again", async () => {
    webhooks.mockRejectedValue(refused("forbidden"));
    const { page } = await show(h(WebhooksPage, { onMenu: () => {} }));
    expect(page.querySelector("[role=alert]")!.textContent).toContain(texts["error.forbidden"]);
    expect(page.querySelector(".webhook, .empty")).toBeNull();
    await soon();
    expect(webhooks).toHaveBeenCalledOnce();
  });

  test("without webhooks it says what they are and where they are set", async () => {
    webhooks.mockResolvedValue([]);
    const { page } = await show(h(WebhooksPage, { onMenu: () => {} }));
    expect(page.querySelector(".empty")!.textContent).toContain("[webhooks.NAME]");
  });
});
