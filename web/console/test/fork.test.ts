// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { beforeEach, expect, test, vi } from "vitest";
import { CountersignError } from "@countersign/client";
import { PastButton } from "../src/components/PastButton.js";
import { client, http } from "../src/state/connection.js";
import { agents, sessionList } from "../src/state/lists.js";
import { route } from "../src/state/route.js";
import { PointEdit } from "../src/components/past/PointEdit.js";
import { editableAt } from "../src/lib/past.js";
import { click, show, write } from "./page.js";
import { Socket } from "./socket.js";

const point = (n: number) => ({ checkpoint: `p${n}`, after: "message", seq: n, at: "2026-01-01T00:00:00Z", pending: [] });
const answers: { resolve: (session: never) => void; reject: (error: Error) => void }[] = [];
const fork = vi.spyOn(http, "fork").mockImplementation(() => new Promise((resolve, reject) => answers.push({ resolve, reject })));

beforeEach(() => {
  HTMLDialogElement.prototype.showModal = () => {};
  HTMLDialogElement.prototype.close = () => {};
  vi.spyOn(http, "checkpoints").mockResolvedValue({ checkpoints: [point(2), point(1)] as never, next: undefined });
  fork.mockClear();
  at("#/s/s");
});

function at(hash: string) {
  history.replaceState(null, "", hash);
  route.set((before) => ({ ...before, sessionId: hash.split("/s/")[1] }));
}

async function pastOf() {
  const { page } = await show(h(PastButton, { sessionId: "s" }));
  const open = () => click(page.querySelector(".past-open"));
  await open();
  const press = (n: number) => click(page.querySelectorAll(".past-point > .button")[n]);
  return { page, open, press };
}
const failsWith = (error: CountersignError) => act(async () => answers.pop()!.reject(error));
const fails = () => failsWith(new CountersignError("unreachable", "Gone."));
const made = (id: string) => act(async () => answers.pop()!.resolve({ session_id: id } as never));
const ids = () => fork.mock.calls.map(([, request]) => request?.request_id);

test("g6: a fork whose answer is lost is asked for again under the same id, and another point under another", async () => {
  const { page, open, press } = await pastOf();
  await press(0);
  await fails();
  await press(1);
  await fails();
  await click(page.querySelector(".dialog-head button"));
  await open();
  await press(0);
  await made("n");
  expect(ids()[0]).toMatch(/./);
  expect(ids()[1]).not.toBe(ids()[0]);
  expect(ids()[2]).toBe(ids()[0]);
  expect(location.hash).toBe("#/s/n");
  // Once the fork exists, the same action is another request.
  at("#/s/s");
  await open();
  await press(0);
  expect(ids()[3]).not.toBe(ids()[0]);
});

test("g6: a fork that was refused is asked for under another id, and one that may have been made under the same", async () => {
  for (const [status, again] of [[409, false], [429, true], [503, true]] as const) {
    const { press } = await pastOf();
    fork.mockClear();
    await press(0);
    await failsWith(new CountersignError(`http_${status}`, "No.", { status }));
    await press(0);
    await made("n");
    expect(ids()[0] === ids()[1], String(status)).toBe(again);
    at("#/s/s");
  }
});

test("g6: the dialog stays open while a fork is made, and who has left meanwhile is not taken there", async () => {
  const { page, press } = await pastOf();
  await press(0);
  expect(page.querySelector<HTMLButtonElement>(".dialog-head button")?.disabled).toBe(true);
  at("#/inbox");
  await made("n");
  expect(location.hash).toBe("#/inbox");
});

test("g6: it is said why the server refuses a changed call", async () => {
  const { page, press } = await pastOf();
  await press(0);
  const errors = [{ pointer: "/price", message: "2 is more than 1" }, { pointer: "", message: "the policy refuses the edited call: too late" }];
  await failsWith(new CountersignError("invalid_edit", "edit.calls[0]: …", { status: 400, byServer: true, details: { index: 0, errors } }));
  const said = [...page.querySelectorAll("[role=alert] li")].map((one) => one.textContent?.trim());
  expect(said).toEqual(["price The server says: 2 is more than 1", "The server says: the policy refuses the edited call: too late"]);
});

test("g6: another text at an earlier point stands where the text of the message stood", async () => {
  const block = (index: number, of: object) => ({ index, seq: 1, ...of });
  const source = { type: "url" as const, url: "https://example.org/a.png" };
  const image = { type: "image" as const, source };
  const orders: [blocks: object[], sent: object[]][] = [
    [[{ type: "text", text: "Before" }, image], [{ type: "text", text: "New" }, image]],
    [[image, { type: "text", text: "Between" }, image], [image, { type: "text", text: "New" }, image]],
    [[image], [image, { type: "text", text: "New" }]],
  ];
  for (const [blocks, sent] of orders) {
    const view = { messages: [{ role: "user", seq: 1, id: "m", blocks: blocks.map((of, i) => block(i, of)) }], approvals: {} };
    const editable = editableAt(view as never, { ...point(1), status: "running" } as never);
    const onFork = vi.fn();
    const { page } = await show(h(PointEdit, { editable, busy: false, onFork }));
    await write(page.querySelector("textarea"), "New");
    await click(page.querySelector(".past-edit button"));
    expect(onFork).toHaveBeenCalledWith({ message: sent });
  }
});

test("g6: what the server would refuse is not offered: a message where a graph runs, and continuing what is somebody else's", async () => {
  vi.stubGlobal("WebSocket", Socket);
  vi.spyOn(http, "checkpoints").mockResolvedValue({ checkpoints: [{ ...point(2), after: "end", status: "completed" }] as never, next: undefined });
  agents.set([{ name: "trader" }] as never);
  const of = (agent: string) => sessionList.set({ rows: [{ session_id: "s", agent, subject: "alice" }] as never, next: undefined, loaded: true });
  of("newsletter");
  const { page } = await pastOf();
  await click(page.querySelector(".past-toggle"));
  const offers = () => [page.querySelectorAll(".past-point > .button").length, page.querySelectorAll(".past-point textarea").length];
  expect(offers()).toEqual([1, 0]);
  await act(async () => of("trader"));
  expect(offers()).toEqual([1, 1]);
  const greet = (subject: string) =>
    act(async () => Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0, subject, roles: ["admin"] }));
  client.connect();
  await greet("bob");
  expect(offers()).toEqual([0, 0]);
});
