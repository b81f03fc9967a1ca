// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { CountersignError, type ListedApproval } from "@countersign/client";
import { settlingOf } from "@countersign/react";
import { InboxPage } from "../src/components/inbox/InboxPage.js";
import { inboxHref, everything } from "../src/lib/inbox.js";
import { announcement } from "../src/lib/announce.js";
import { client, http } from "../src/state/connection.js";
import { waiting } from "../src/state/lists.js";
import { route } from "../src/state/route.js";
import { useStore } from "../src/state/store.js";
import { catalogues } from "../src/i18n/all.js";
import { button, click, show, write } from "./page.js";
import { Socket } from "./socket.js";

vi.stubGlobal("WebSocket", Socket);
client.connect();
Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });

const request = (n: number): ListedApproval => ({
  approvalKey: `s_${n}`,
  sessionId: "s",
  kind: "approval",
  actions: [{ id: `c${n}`, name: `pay${n}`, args: { n }, digest: `d${n}` }],
  reviewConfigs: [{ allowed_decisions: ["approve", "reject"] }],
  complete: true,
  createdAt: "2026-01-01T00:00:00Z",
  updates: [],
});

HTMLDialogElement.prototype.showModal = () => {};
HTMLDialogElement.prototype.close = () => {};

let stored: () => void;
/** The requests that the server reports as pending. */
const wait = async (...ns: number[]) => {
  vi.spyOn(http, "pending").mockResolvedValue({ approvals: ns.map(request), next: undefined });
  await waiting.refresh();
};
beforeEach(async () => {
  // The test before has decided something a moment ago.
  await vi.waitFor(() => expect(settlingOf(client).get()).toBe(false));
  vi.stubGlobal("fetch", () => new Promise(() => {}));
  await wait(1, 2, 3, 4);
  vi.spyOn(client, "reply").mockImplementation(() => new Promise((resolve) => (stored = () => resolve({} as never))));
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** To another part of the page, as a link leads there. */
const goTo = (hash: string) =>
  act(async () => {
    history.pushState(null, "", hash);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  });

function Page() {
  const { inbox } = useStore(route);
  return inbox ? h(InboxPage, { query: inbox, onMenu: () => {} }) : null;
}

/** Approves a request; it is not stored yet. */
async function approve(approvalKey = "s_1") {
  await goTo(inboxHref({ ...everything, open: approvalKey }));
  const { page } = await show(h(Page));
  await click(page.querySelector(".inbox-pane [data-choice=approve]"));
  return page;
}

test("u1: the next request opens once one is decided, by the filters that hold then", async () => {
  await approve();
  await goTo(inboxHref({ ...everything, search: "pay", open: "s_1" }));
  await act(async () => stored());
  expect(location.hash).toBe(inboxHref({ ...everything, search: "pay", open: "s_2" }));
});

test("u1: who waits for a decision to be stored goes on from its place, also where the list has lost it by then", async () => {
  await approve("s_2");
  await act(async () => wait(1, 4));
  await act(async () => stored());
  expect(location.hash).toBe(inboxHref({ ...everything, open: "s_4" }));
});

test("u1: who leaves the inbox and comes back before a decision is stored goes on there", async () => {
  const page = await approve();
  await goTo("#/s/other");
  await goTo(inboxHref({ ...everything, open: "s_1" }));
  await act(async () => wait(1, 3, 4));
  await act(async () => stored());
  expect(location.hash).toBe(inboxHref({ ...everything, open: "s_3" }));
  expect(page.querySelector(".inbox-stored")?.textContent).toContain("pay1");
});

test.each([
  ["another request", inboxHref({ ...everything, open: "s_3" })],
  ["the list", inboxHref()],
  ["a conversation", "#/s/other"],
])("u1: who has gone on to %s before a decision is stored stays there", async (_, hash) => {
  await approve();
  await goTo(hash);
  await act(async () => stored());
  expect(location.hash).toBe(hash);
  expect(announcement.get()).toContain("pay1");
});

test("u1: an inbox that could not be read says so, and can be tried again", async () => {
  await act(async () => wait());
  vi.spyOn(http, "pending").mockRejectedValue(new TypeError("fetch failed"));
  await act(() => waiting.refresh());
  await goTo(inboxHref());
  const { page } = await show(h(Page));
  expect(page.querySelector(".inbox-list [role=alert]")?.textContent).toContain(catalogues.en["error.unreachable"]);
  expect(page.textContent).not.toContain(catalogues.en["inbox.empty"]);
  vi.spyOn(http, "pending").mockResolvedValue({ approvals: [request(1)], next: undefined });
  await click(button(page, "app.retry"));
  expect([page.querySelector(".inbox-list [role=alert]"), page.querySelectorAll(".inbox-list li").length]).toEqual([null, 1]);
});

test("u1: what was decided about many is in sight, in place of what was before it", async () => {
  await act(async () => wait(5, 6, 7, 8));
  await approve("s_5");
  await act(async () => stored());
  const note = () => [...document.querySelectorAll(".inbox-stored")].map((one) => one.textContent);
  expect(note()).toEqual([expect.stringContaining("pay5")]);
  await act(async () => wait(6, 7, 8));
  await goTo(inboxHref(everything));
  await click(document.querySelector('[aria-label="Select all 3 shown"]'));
  await click(button(document.body, "bulk.reject"));
  // All of them at once.
  const stores: (() => void)[] = [];
  vi.spyOn(client, "reply").mockImplementation(() => new Promise((resolve) => stores.push(() => resolve({} as never))));
  await click(document.querySelector(".bulk-foot .danger"));
  await act(async () => stores.forEach((one) => one()));
  expect(note()).toEqual(["Decisions stored: 3"]);
  // Not in the part that scrolls.
  expect(document.querySelector(".inbox-list .inbox-stored")).toBeNull();
});

test("u1: what is typed is no shortcut, also right after a request has opened by itself", async () => {
  await act(async () => wait(20, 21));
  await goTo(inboxHref({ ...everything, open: "s_20" }));
  const { page } = await show(h(Page));
  const pressed = (target: Element | null, key: string) => {
    const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
    target?.dispatchEvent(event);
    return event.defaultPrevented;
  };
  await click(button(page, "inbox.later"));
  expect(pressed(page.querySelector(".card"), "a")).toBe(true);
  expect(pressed(page.querySelector("[type=search]"), "a")).toBe(false);
  expect(client.reply).not.toHaveBeenCalled();
});

/** Rejects these in one go; it is not stored yet. Resolves to how to store it. */
async function rejectAll(page: Element, ...rows: number[]) {
  const stores: ((ok: boolean) => void)[] = [];
  const refusal = new CountersignError("stale_action", "it has changed");
  vi.spyOn(client, "reply").mockImplementation(
    () => new Promise((resolve, reject) => stores.push((ok) => (ok ? resolve({} as never) : reject(refusal)))),
  );
  for (const n of rows) await click(page.querySelector(`#row-s_${n}`)?.closest("li")?.querySelector("input"));
  await click(button(document.body, "bulk.reject"));
  await write(document.querySelector(".bulk-foot textarea"), "Not today");
  await click(document.querySelector(".bulk-foot .danger"));
  expect(client.reply).toHaveBeenCalledTimes(rows.length);
  return (ok: boolean) => act(async () => stores.forEach((one) => one(ok)));
}

test("u1: a request whose decision is on its way with others gets no second one, and stays open for who comes back to it", async () => {
  await act(async () => wait(1, 2, 3));
  await goTo(inboxHref(everything));
  const { page } = await show(h(Page));
  const settle = await rejectAll(page, 1, 2);
  await goTo("#/s/other");
  await goTo(inboxHref({ ...everything, open: "s_2" }));
  const choice = page.querySelector<HTMLButtonElement>(".inbox-pane [data-choice=approve]");
  expect(choice?.disabled).toBe(true);
  await click(choice);
  expect(client.reply).toHaveBeenCalledTimes(2);
  await settle(true);
  expect(location.hash).toBe(inboxHref({ ...everything, open: "s_2" }));
});

test("u1: why one of many decisions was refused is told also where their dialog has gone", async () => {
  await act(async () => wait(1, 2, 3));
  await goTo(inboxHref(everything));
  const { page } = await show(h(Page));
  const settle = await rejectAll(page, 1, 2);
  await goTo("#/s/other");
  await settle(false);
  await goTo(inboxHref({ ...everything, open: "s_2" }));
  expect(page.querySelector(".inbox-pane [role=alert]")?.textContent).toContain(catalogues.en["error.stale_action"]);
  // Nor is the reason lost.
  await click(page.querySelector("#row-s_1")?.closest("li")?.querySelector("input"));
  await click(button(document.body, "bulk.reject"));
  expect(document.querySelector<HTMLTextAreaElement>(".bulk-foot textarea")?.value).toBe("Not today");
});

test("u1: a row and the dialog about many say the highest risk of its calls, and the step of each", async () => {
  const two: ListedApproval = {
    ...request(9),
    actions: [{ id: "a", name: "trade", args: {}, digest: "a" }, { id: "b", name: "wire", args: {}, digest: "b" }],
    reviewConfigs: [
      { allowed_decisions: ["approve", "reject"], risk: "medium" },
      { allowed_decisions: ["approve", "reject"], risk: "high", level: 1, levels: ["desk", "boss"] },
    ],
  };
  vi.spyOn(http, "pending").mockResolvedValue({ approvals: [two], next: undefined });
  await act(async () => void (await waiting.refresh()));
  await goTo(inboxHref(everything));
  await show(h(Page));
  const row = document.querySelector(".inbox-row");
  expect([row?.querySelectorAll(".risk").length, row?.querySelector(".risk")?.textContent]).toEqual([1, "Risk: high"]);
  expect(row?.textContent).toContain("level 1 of 2");
  await click(row?.querySelector("input"));
  await click(button(document.body, "bulk.approve"));
  expect(document.querySelector(".bulk-row .risk")?.textContent).toBe("Risk: high");
});

const pick = (page: Element, label: string, value: string) =>
  act(async () => {
    const select = page.querySelector<HTMLSelectElement>(`select[aria-label="${label}"]`)!;
    Object.getOwnPropertyDescriptor(HTMLSelectElement.prototype, "value")?.set?.call(select, value);
    select.dispatchEvent(new Event("change", { bubbles: true }));
  });

test("u1: what is chosen before the page has followed a link applies to where the link leads", async () => {
  await goTo(inboxHref({ ...everything, search: "nothing like it" }));
  const { page } = await show(h(Page));
  /** The address changes at once, and its event comes later. */
  const link = (hash: string) => history.pushState(null, "", hash);
  link(inboxHref({ ...everything, tab: "others" }));
  await pick(page, catalogues.en["inbox.group"], "risk");
  expect(location.hash).toBe(inboxHref({ ...everything, tab: "others", group: "risk" }));
  await goTo(inboxHref({ ...everything, open: "s_1" }));
  link(inboxHref({ ...everything, search: "pay", open: "s_1" }));
  await click(page.querySelector(`[aria-label="${catalogues.en["keys.next"]}"]`));
  expect(location.hash).toBe(inboxHref({ ...everything, search: "pay", open: "s_2" }));
  link("#/rules");
  await write(page.querySelector("[type=search]"), "pay");
  expect(location.hash).toBe("#/rules");
});

test("u1: what is chosen adds up where a browser lets the address change no more", async () => {
  await goTo(inboxHref());
  const { page } = await show(h(Page));
  vi.spyOn(history, "replaceState").mockImplementation(() => {
    throw new DOMException("Too often.", "SecurityError");
  });
  await write(page.querySelector("[type=search]"), "pay");
  await pick(page, catalogues.en["inbox.group"], "risk");
  expect(route.get().inbox).toEqual({ ...everything, search: "pay", group: "risk" });
});
