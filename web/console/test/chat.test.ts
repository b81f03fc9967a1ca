// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { beforeEach, expect, test, vi } from "vitest";
import { CountersignError, type SessionSummary } from "@countersign/client";
import { ChatPage } from "../src/components/ChatPage.js";
import { Sidebar } from "../src/components/Sidebar.js";
import type { Language } from "../src/i18n/index.js";
import { announcement } from "../src/lib/announce.js";
import { Socket } from "./socket.js";
import { click, show } from "./page.js";

vi.stubGlobal("WebSocket", Socket);
vi.stubGlobal("fetch", () => new Promise(() => {}));
vi.stubGlobal("matchMedia", () => ({ matches: false }));
const { loadLanguage } = await import("../src/i18n/index.js");
const { client, http } = await import("../src/state/connection.js");
const { agents, sessionList } = await import("../src/state/lists.js");
const { sendMessage, sessions } = await import("../src/state/sessions.js");

client.connect();
Socket.last.onopen?.();
Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });
agents.set([{ name: "painter", takes_images: true }] as never);

beforeEach(() => {
  sessionList.set({ rows: [], next: undefined, loaded: true });
  vi.spyOn(http, "session").mockImplementation(async (session_id) => ({ session_id, agent: "painter", title: "Old one" }) as SessionSummary as never);
});

/** Opens a session whose events from `seq` on are these. */
async function open(sessionId: string, seq: number, ...events: object[]) {
  return openIn("en", sessionId, seq, ...events);
}

async function openIn(language: Language, sessionId: string, seq: number, ...events: object[]) {
  const { page } = await show(h(ChatPage, { sessionId, onMenu: () => {} }), language);
  await act(async () => {
    let last = seq - 1;
    // Every event has a number, except deltas.
    Socket.last.receive(...events.map((event) => ({ ...event, session_id: sessionId, ...("delta" in event ? {} : { seq: ++last }) })));
    await vi.waitFor(() => expect(sessions.get(sessionId).view.lastSeq).toBe(last), 20_000);
  });
  return page;
}

test("u1: a session that is in no list has its agent and its name", async () => {
  const page = await open("old", 1, { type: "run_status", status: "idle", pending: [] });
  await vi.waitFor(() => expect(page.querySelector(".topbar")?.textContent).toContain("Old one"), 20_000);
  expect(page.querySelector(".topbar")?.textContent).toContain("painter");
  expect(page.querySelector(".composer-box .icon-button")).not.toBeNull();
});

test("u1: requests that come together are all announced", async () => {
  const asked = (index: number, name: string) => [
    {
      type: "content_block_start",
      message_id: "m1",
      index,
      content_block: {
        type: "approval_request",
        approval_key: `two_${index}`,
        kind: "approval",
        actions: [{ id: `c${index}`, name, args: {} }],
        review_configs: [{ allowed_decisions: ["approve", "reject"] }],
      },
    },
    { type: "content_block_stop", message_id: "m1", index },
  ];
  await open("two", 1, { type: "message_start", message_id: "m1", role: "assistant" }, ...asked(0, "pay"), ...asked(1, "sell"));
  expect(announcement.get()).toMatch(/pay.*sell/);
});

test("u1: of a session that its server has lost no card stays, and another request with the same key is announced", async () => {
  const asked = (digest: string) => [
    { type: "message_start", message_id: "m1", role: "assistant" },
    {
      type: "content_block_start",
      message_id: "m1",
      index: 0,
      content_block: {
        type: "approval_request",
        approval_key: "lost_1",
        kind: "approval",
        actions: [{ id: "c1", name: "pay", args: {}, digest }],
        review_configs: [{ allowed_decisions: ["approve", "reject"] }],
      },
    },
    { type: "content_block_stop", message_id: "m1", index: 0 },
  ];
  const page = await open("lost", 1, ...asked("d1"));
  expect([page.querySelectorAll("article").length, announcement.get()]).toEqual([1, expect.stringContaining("pay")]);
  announcement.set("");
  const refuse = () => act(async () => Socket.last.receive({ type: "error", code: "session_not_found", message: "", session_id: "lost" }));
  await refuse();
  await refuse();
  expect([page.querySelectorAll("article").length, page.querySelector(".notice")?.textContent]).toEqual([0, expect.stringContaining("does not exist")]);
  // A message would make one.
  expect(page.querySelector(".composer")).toBeNull();
  await act(async () => {
    Socket.last.receive(...asked("d2").map((event, i) => ({ ...event, session_id: "lost", seq: 1 + i })));
    await vi.waitFor(() => expect(sessions.get("lost").view.lastSeq).toBe(3), 20_000);
  });
  expect([page.querySelectorAll("article").length, page.querySelector(".notice"), announcement.get()]).toEqual([1, null, expect.stringContaining("pay")]);
  expect(page.querySelector(".composer")).not.toBeNull();
});

test("u1: a message is drawn once, also while its own event is coming", async () => {
  const page = await open("drawn", 1, { type: "run_status", status: "idle", pending: [] });
  const said = () => page.querySelectorAll(".message.user").length;
  await act(async () => void sendMessage("drawn", "", [{ type: "base64", media_type: "image/png", data: "AA==" }]));
  const sent = Socket.last.sent.find(({ type }) => type === "message");
  await act(async () => Socket.last.receive({ type: "ack", request_id: sent?.request_id, session_id: "drawn" }));
  expect(said()).toBe(1);
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "AA==" } };
  const events = [
    { type: "message_start", message_id: "m1", role: "user" },
    { type: "content_block_start", message_id: "m1", index: 0, content_block: image },
    { type: "message_stop", message_id: "m1" },
  ];
  for (const [i, event] of events.entries()) {
    await act(async () => {
      Socket.last.receive({ ...event, session_id: "drawn", seq: 2 + i });
      await vi.waitFor(() => expect(sessions.get("drawn").view.lastSeq).toBe(2 + i), 20_000);
    });
    expect(said(), event.type).toBe(1);
  }
});

/** One message of the agent, with one call and a pending request of this kind about it. */
const asked = (kind: string, line: string) => [
  { type: "message_start", message_id: "m1", role: "assistant" },
  { type: "content_block_start", message_id: "m1", index: 0, content_block: { type: "tool_use", id: "c1", name: "pay", input: {} } },
  { type: "content_block_stop", message_id: "m1", index: 0, tool_content_message: line },
  {
    type: "content_block_start",
    message_id: "m1",
    index: 1,
    content_block: {
      type: "approval_request",
      approval_key: `${kind}_1`,
      kind,
      actions: [{ id: "c1", tool_use_id: "c1", name: "pay", args: {} }],
      review_configs: [{ allowed_decisions: ["approve", "reject"] }],
    },
  },
  { type: "content_block_stop", message_id: "m1", index: 1 },
];

test.each([
  ["approval", "waiting for approval"],
  ["in_doubt", "outcome unknown"],
])("u1: a call that waits says for what: %s", async (kind, says) => {
  const page = await open(kind, 1, ...asked(kind, "Pay"));
  expect(page.querySelector(".tool-status")?.textContent).toBe(says);
});

test("u1: what only a newer server knows is shown in its words, and decides nothing", async () => {
  const result = { type: "tool_result", tool_use_id: "c0", name: "look", status: "postponed" };
  const page = await open(
    "newer",
    1,
    ...asked("handover", "Pay"),
    { type: "hologram_shown" },
    { type: "approval_updated", approval_key: "handover_1", update: "postponed", by: "ann" },
    { type: "content_block_start", message_id: "m1", index: 2, content_block: { type: "hologram" } },
    { type: "content_block_start", message_id: "m1", index: 3, content_block: result },
    { type: "content_block_stop", message_id: "m1", index: 3 },
    { type: "run_status", status: "paused", pending: ["handover_1"] },
  );
  const card = page.querySelector("article");
  expect(card?.textContent).toContain("does not know this kind of request, “handover”");
  expect([card?.querySelectorAll("form, .buttons").length, page.querySelector(".status")?.textContent]).toEqual([0, "paused"]);
  expect([...page.querySelectorAll(".tool-status")].map((one) => one.textContent)).toContain("postponed");
  expect(page.querySelector(".notice")?.textContent).toContain("hologram");
  expect(page.querySelector("[data-update]")?.textContent ?? "").toBe("ann: postponed");
});

test("x: letters that are drawn like others are marked in the line above a card too", async () => {
  const page = await open("alike", 1, ...asked("approval", "Buy VN\u041c"));
  expect(page.querySelector(".tool-message")?.textContent).toBe("Buy VN⟨U+041C⟩");
});

test("x: what turns the direction of a text around is marked in titles and in what people said", async () => {
  vi.spyOn(http, "session").mockImplementation(async (session_id) => ({ session_id, agent: "painter", title: "Old \u202eeno" }) as SessionSummary as never);
  const page = await open(
    "turned",
    1,
    { type: "message_start", message_id: "m1", role: "user" },
    { type: "content_block_start", message_id: "m1", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", message_id: "m1", index: 0, delta: { type: "text_delta", text: "Pay \u202e001" } },
    { type: "content_block_stop", message_id: "m1", index: 0 },
    { type: "message_stop", message_id: "m1" },
  );
  await vi.waitFor(() => expect(page.querySelector("h1")?.textContent).toBe("Old ⟨U+202E⟩eno"), 20_000);
  expect(page.querySelector(".bubble")?.textContent).toBe("Pay ⟨U+202E⟩001");
  await act(async () => sessionList.set({ rows: [{ session_id: "turned", title: "Old \u202eeno" } as SessionSummary], next: undefined, loaded: true }));
  const { page: side } = await show(h(Sidebar, { open: false, onClose: () => {} }));
  expect(side.querySelector(".session-title")?.textContent).toBe("Old ⟨U+202E⟩eno");
});

test("u3: a single step from the end to the top draws what came before", async () => {
  const messages = Array.from({ length: 60 }, (_, n) => [
    { type: "message_start", message_id: `m${n}`, role: "user" },
    { type: "content_block_start", message_id: `m${n}`, index: 0, content_block: { type: "text", text: `Question ${n}` } },
    { type: "content_block_stop", message_id: `m${n}`, index: 0 },
    { type: "message_stop", message_id: `m${n}` },
  ]).flat();
  const page = await open("jumps", 1, ...messages);
  const drawn = () => page.querySelectorAll(".chat > .message").length;
  expect(drawn()).toBe(40);
  const area = page.querySelector(".chat-scroll")!;
  Object.defineProperties(area, { scrollHeight: { value: 5000 }, clientHeight: { value: 500 } });
  area.scrollTop = 0;
  await act(async () => area.dispatchEvent(new Event("scroll")));
  expect(drawn()).toBe(60);
});

test("u1: that earlier messages could not be read is said until they are", async () => {
  const page = await open("long", 10, { type: "message_start", message_id: "m9", role: "user" }, { type: "message_stop", message_id: "m9" });
  const earlier = async () => {
    await click(page.querySelector(".chat-earlier"));
    await act(async () => {});
  };
  const events = vi.spyOn(http, "events").mockImplementation(async function* () {
    throw new CountersignError("unreachable", "Gone.");
  });
  await earlier();
  expect(page.querySelector("[role=alert]")).not.toBeNull();
  events.mockImplementation(async function* () {
    yield { type: "message_start", message_id: "m1", role: "user", session_id: "long", seq: 1 } as never;
  });
  await earlier();
  expect(page.querySelector("[role=alert]")).toBeNull();
});

for (const [reason, says] of [
  ["crashes", { en: "The server stopped unexpectedly", vi: "Máy chủ đã ngừng đột ngột", zh: "服务器每次处理本轮时都意外终止" }],
  ["restored", { en: "The store was restored from a backup", vi: "Kho dữ liệu được khôi phục từ bản sao lưu", zh: "数据是从备份恢复的" }],
] as const) {
  test(`r9 r4: why a turn is on hold is said in the language of the page: ${reason}`, async () => {
    for (const language of ["en", "vi", "zh"] as const) {
      await loadLanguage(language);
      const page = await openIn(language, `${reason}-${language}`, 1, { type: "run_status", status: "running", pending: [], held: { reason, message: "held" } });
      expect(page.querySelector(".turn-end")?.textContent).toContain(says[language]);
      // Most of all where somebody is about to approve something.
      const waits = await openIn(language, `${reason}-${language}-waits`, 1, { type: "run_status", status: "awaiting_input", pending: ["k_1"], held: { reason, message: "held" } });
      expect(waits.querySelector(".turn-end")?.textContent).toContain(says[language]);
      // A retry continues it, also where nothing is pending and no message is taken.
      const retry = vi.spyOn(http, "retry").mockResolvedValue({} as never);
      await click(page.querySelector(".turn-end button"));
      expect(retry).toHaveBeenCalledWith(`${reason}-${language}`, {});
      // Nothing suggests that it is running.
      expect(page.querySelector(".chat .pulse")).toBeNull();
    }
  });
}

test("u1: a session that was deleted elsewhere leaves the list once it is opened", async () => {
  const rows = ["away", "stays"].map((session_id) => ({ session_id, agent: "painter" }) as SessionSummary);
  sessionList.set({ rows, next: undefined, loaded: true });
  await show(h(ChatPage, { sessionId: "away", onMenu: () => {} }));
  expect(sessionList.get().rows).toHaveLength(2);
  await act(async () => sessions.deleted("away"));
  expect(sessionList.get().rows.map((row) => row.session_id)).toEqual(["stays"]);
});
