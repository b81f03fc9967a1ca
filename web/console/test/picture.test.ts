// @vitest-environment jsdom
/** The graph beside the chat, while its session goes on. */
import { act, createElement as h } from "react";
import { beforeEach, expect, test, vi } from "vitest";
import { CountersignError, emptySession, type SessionView } from "@countersign/client";
import { GraphPanel } from "../src/components/graph/GraphPanel.js";
import * as graph from "../src/lib/graph.js";
import { catalogues } from "../src/i18n/all.js";
import { client, http } from "../src/state/connection.js";
import { show } from "./page.js";
import { Socket } from "./socket.js";

vi.mock(import("../src/lib/graph.js"), async (original) => {
  const real = await original();
  return { ...real, layout: vi.fn(real.layout) };
});
vi.stubGlobal("WebSocket", Socket);
vi.stubGlobal("ResizeObserver", class {
  observe() {}
  disconnect() {}
});
Element.prototype.scrollTo = vi.fn() as never;
await import("../src/components/graph/GraphPicture.js");
client.connect();
Socket.last.receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 0 });

const nodes = ["a", "b"].map((id) => ({ id, label: `Node ${id}`, kind: "node" as const }));
/** The session is at this node. */
const at = (node: string, seq: number) =>
  vi.spyOn(http, "sessionGraph").mockResolvedValue({
    agent: "trader", session_id: "s", seq, status: "running",
    drawing: { nodes, edges: [{ from: "a", to: "b", label: "", conditional: false }], current: [{ node, running: 1, waiting: 0 }] },
  } as never);
const view = (lastSeq: number): SessionView => ({ ...emptySession("s"), lastSeq, ...(lastSeq > 0 ? { status: lastSeq % 2 === 0 ? "running" : "awaiting_input" } : {}) });
const panel = (lastSeq: number) => h(GraphPanel, { view: view(lastSeq), onClose: () => {} });
const read = () => act(() => new Promise((resolve) => setTimeout(resolve, 300)));
const marked = (page: Element) => [...page.querySelectorAll("[data-state]")].map((one) => one.getAttribute("data-node"));

beforeEach(() => void vi.mocked(graph.layout).mockClear());

test("g7: a turn that moves on through its graph does not lay it out again, nor scroll back who looks around in it", async () => {
  at("a", 2);
  const { page, draw } = await show(panel(2));
  await read();
  expect(marked(page)).toEqual(["a"]);
  const scrolled = vi.mocked(Element.prototype.scrollTo).mock.calls.length;
  at("a", 3);
  await draw(panel(3));
  await read();
  expect(vi.mocked(Element.prototype.scrollTo).mock.calls.length).toBe(scrolled);
  at("b", 4);
  await draw(panel(4));
  await read();
  expect(marked(page)).toEqual(["b"]);
  expect(graph.layout).toHaveBeenCalledTimes(1);
});

test("g7: the graph of a session that starts over is that of now", async () => {
  at("b", 90);
  const { page, draw } = await show(panel(90));
  await read();
  expect(marked(page)).toEqual(["b"]);
  await draw(panel(0));
  at("a", 2);
  await draw(panel(2));
  await read();
  expect(marked(page)).toEqual(["a"]);
});

test("g7: an answer about the session before it started over is not shown", async () => {
  let answer = () => {};
  const old = { agent: "trader", session_id: "s", seq: 90, status: "running", drawing: { nodes, edges: [], current: [{ node: "b", running: 1, waiting: 0 }] } };
  vi.spyOn(http, "sessionGraph").mockImplementationOnce(() => new Promise((resolve) => (answer = () => resolve(old as never))));
  const { page, draw } = await show(panel(90));
  await read();
  await draw(panel(0));
  await act(async () => answer());
  at("a", 2);
  await draw(panel(2));
  await read();
  expect(marked(page)).toEqual(["a"]);
});

test("g7: a graph that could not be read is read again, though nothing happens in its session", async () => {
  vi.useFakeTimers();
  try {
    const reading = vi.spyOn(http, "sessionGraph").mockRejectedValue(new CountersignError("unreachable", "Gone."));
    const { page } = await show(panel(2));
    await act(() => vi.advanceTimersByTimeAsync(300));
    expect(page.querySelector(".graph-note")?.textContent).toBe(catalogues.en["graph.failed"]);
    const before = reading.mock.calls.length;
    at("a", 2);
    await act(() => vi.advanceTimersByTimeAsync(6_000));
    expect(reading.mock.calls.length).toBe(before + 1);
    expect(marked(page)).toEqual(["a"]);
  } finally {
    vi.useRealTimers();
  }
});
