// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { beforeEach, expect, test, vi } from "vitest";
import { readTab, writeLocal, writeTab } from "../src/lib/storage.js";
import { Socket } from "./socket.js";

// It never ends: the network hangs.
const reload = vi.fn();
vi.stubGlobal("WebSocket", Socket);
vi.stubGlobal("fetch", () => new Promise(() => {}));
vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {}, removeEventListener: () => {} }));
vi.stubGlobal("location", { hash: "", href: "http://server/", reload });

const OF_SOMEBODY = ["draft:s", "reply:s_1:d", "talk:s_1", "queued:s", "voted:s_1"];
const left = () => OF_SOMEBODY.filter((key) => readTab(key) !== null);
const hello = (subject: string, tenant?: string) => Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0, subject, tenant });

/** The page as it is once it has been loaded. */
async function load() {
  vi.resetModules();
  const { loadLanguage } = await import("../src/i18n/index.js");
  await loadLanguage("en");
  const { show } = await import("./page.js");
  const { App } = await import("../src/components/App.js");
  const connection = await import("../src/state/connection.js");
  connection.client.connect();
  return { ...connection, show, open: async () => (await show(h(App))).page };
}

beforeEach(() => {
  reload.mockClear();
  sessionStorage.clear();
  writeTab("token", "alice-token");
  for (const key of OF_SOMEBODY) writeTab(key, '"mine"');
  localStorage.clear();
  for (const name of ["alice", "carol"]) writeLocal(`later=${name}`, JSON.stringify({ s_1: Date.now() + 60_000 }));
});

test("u1: who signs in next finds nothing that somebody else has written, and their own again", async () => {
  const { client } = await load();
  hello("alice");
  hello("alice");
  expect(left()).toEqual(OF_SOMEBODY);
  expect(reload).not.toHaveBeenCalled();
  hello("bob");
  expect(left()).toEqual([]);
  expect(Object.keys(localStorage)).toEqual(["countersign:later=carol"]);
  expect(readTab("token")).toBe("alice-token");
  expect(client.state).toBe("closed");
  expect(reload).toHaveBeenCalledOnce();
});

test("u1: the same name in another tenant is somebody else", async () => {
  const { client } = await load();
  writeLocal('later@["north","alice"]', '{"s_1":1}');
  hello("alice", "north");
  hello("alice", "north");
  expect([left(), reload.mock.calls.length]).toEqual([OF_SOMEBODY, 0]);
  hello("alice", "south");
  expect([left(), reload.mock.calls.length, client.state]).toEqual([[], 1, "closed"]);
  // Requests that they hid in the other tenant, and those that others hid, are kept apart.
  expect(Object.keys(localStorage).sort()).toEqual(["countersign:later=alice", "countersign:later=carol"]);
});

test("u1: who signs in where nobody had to finds nothing of before", async () => {
  await load();
  hello("");
  hello("bob");
  expect(left()).toEqual([]);
  expect(reload).toHaveBeenCalledOnce();
});

test.each([true, false])("u1: who signs out leaves nothing in the tab (greeted: %s)", async (greeted) => {
  if (!greeted) writeTab("person", "=alice");
  const { client, signOut } = await load();
  if (greeted) hello("alice");
  const sent = client.sendMessage({ session_id: "s", content: "Sell everything" });
  signOut();
  expect(Object.keys(sessionStorage)).toEqual([]);
  expect(Object.keys(localStorage)).toEqual(["countersign:later=carol"]);
  expect(reload).toHaveBeenCalledOnce();
  expect(client.state).toBe("closed");
  await expect(sent).rejects.toMatchObject({ code: "closed" });
  expect(window.dispatchEvent(new Event("beforeunload", { cancelable: true }))).toBe(true);
});

test("u1: what is refused because somebody signs out does not come back into the tab", async () => {
  const { signOut } = await load();
  const { giveBack } = await import("../src/lib/returned.js");
  const { outgoingOf, sendMessage } = await import("../src/state/sessions.js");
  hello("alice");
  outgoingOf("s").set((s) => ({ ...s, messages: [{ id: "q", text: "Then sell", images: [], queuedAfter: 1 }] }));
  const returned = sendMessage("s", "Sell everything", []).catch(() => giveBack("draft:s", { text: "Sell everything", images: [] }));
  signOut();
  await returned;
  expect(Object.keys(sessionStorage)).toEqual([]);
});

test.each(["signs out", "is followed by somebody else"])("u1: the page of who %s shows nothing, however long it takes to load anew", async (how) => {
  const { client, open, signOut } = await load();
  hello("alice");
  const page = await open();
  await vi.waitFor(() => expect(page.textContent).toContain("alice"), 20_000);
  await act(async () => (how === "signs out" ? signOut() : hello("bob")));
  expect(page.textContent).toBe("");
  expect(client.state).toBe("closed");
});

test("u1: after a sign-in nothing is shown or sent before it is known whose it is", async () => {
  writeTab("person", "=alice");
  const before = await load();
  before.setToken("bob-token");
  before.client.close();
  // Also if the page is reloaded in between.
  for (const next of ["alice", "bob"]) {
    const { client, open } = await load();
    const page = await open();
    expect(page.querySelector(".app")).toBeNull();
    const socket = Socket.last;
    void client.sendMessage({ session_id: "s", content: "Sell everything" }).catch(() => {});
    await act(async () => hello(next));
    expect(page.querySelector(".app") !== null, next).toBe(next === "alice");
    expect(socket.sent.some(({ type }) => type === "message"), next).toBe(next === "alice");
    if (next === "alice") writeTab("unknown", "yes");
  }
});

test("u1: what somebody has put off is theirs alone", async () => {
  for (const [name, keys] of [["alice", "s_1"], ["bob", ""]] as const) {
    sessionStorage.clear();
    const { show } = await load();
    const { usePutOff } = await import("../src/state/later.js");
    const PutOff = () => h("p", null, [...usePutOff().keys()].join(" "));
    const { page } = await show(h(PutOff));
    await act(async () => hello(name));
    expect(page.textContent, name).toBe(keys);
  }
});
