// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { expect, test, vi } from "vitest";
import { CountersignError, type AnyCode, type ListedApproval } from "@countersign/client";
import { InboxRow } from "../src/components/inbox/InboxRow.js";
import { OpenRequest } from "../src/components/inbox/OpenRequest.js";
import { catalogues } from "../src/i18n/all.js";
import { Socket } from "./socket.js";
import { button, click, show } from "./page.js";

vi.stubGlobal("WebSocket", Socket);
vi.stubGlobal("fetch", () => new Promise(() => {}));
const { client, http } = await import("../src/state/connection.js");
const { sessions } = await import("../src/state/sessions.js");

const request: ListedApproval = {
  approvalKey: "s_1",
  sessionId: "s",
  kind: "approval",
  actions: [{ id: "c1", name: "pay", args: {}, digest: "d" }],
  reviewConfigs: [{ allowed_decisions: ["approve"] }],
  complete: true,
  updates: [],
};

client.connect();
Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });

async function opened(code: AnyCode) {
  vi.spyOn(http, "approval").mockRejectedValueOnce(new CountersignError(code, "Refused.")).mockResolvedValue(request);
  const { page } = await show(h(OpenRequest, { approvalKey: "s_1", row: undefined, onSent: () => {} }));
  return page;
}

test.each(["approval_not_found", "forbidden", "session_deleted"] as const)("u1: a request that is not there, or not to be seen, is said to be none (%s)", async (code) => {
  const page = await opened(code);
  expect(page.textContent).toBe(catalogues.en["error.approval_not_found"]);
});

test("u1: a request that could not be read is not said to be none, and is read again", async () => {
  const page = await opened("unreachable");
  expect(page.textContent).toContain(catalogues.en["error.unreachable"]);
  await click(button(page, "app.retry"));
  expect(page.querySelector("[data-choice=approve]")).not.toBeNull();
});

test("u1: a request whose session is held says so, in the list and where it is open", async () => {
  const held = { reason: "restored", message: "…" } as const;
  const row = { ...request, held };
  const { page: open } = await show(h(OpenRequest, { approvalKey: "s_1", row, onSent: () => {} }));
  expect(open.querySelector(".inbox-held")?.textContent).toBe(catalogues.en["chat.restored"]);
  const { page: list } = await show(h(InboxRow, { row, href: "#", open: false, others: false, until: undefined, chosen: undefined, onChoose: () => {} }));
  expect(list.querySelector(".inbox-held")?.textContent).toContain(catalogues.en["inbox.held"]);
});

test("u1: a request of a restored store says so too where its turn has failed, until it is tried again", async () => {
  const row = { ...request, approvalKey: "f_1", sessionId: "f", held: { reason: "restored", message: "…" } } as const;
  const { page } = await show(h(OpenRequest, { approvalKey: "f_1", row, onSent: () => {} }));
  const said = () => page.querySelector(".inbox-held")?.textContent;
  await vi.waitFor(() => expect(Socket.last.sent).toContainEqual(expect.objectContaining({ type: "subscribe", session_id: "f" })), 20_000);
  const comes = (seq: number, status: object) =>
    act(async () => {
      Socket.last.receive({ type: "run_status", pending: ["f_1"], session_id: "f", seq, ...status });
      await vi.waitFor(() => expect(sessions.get("f").view.lastSeq).toBe(seq), 20_000);
    });
  await comes(1, { status: "failed", error: { code: "model_error", message: "It is down." } });
  expect([sessions.get("f").view.status, said()]).toEqual(["failed", catalogues.en["chat.restored"]]);
  await comes(2, { status: "awaiting_input" });
  expect(said()).toBeUndefined();
});
