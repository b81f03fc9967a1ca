/** At every pause the history that the client makes of the events equals the server's. */
import {
  CountersignHttp,
  emptySession,
  foldAll,
  historyOf,
  parseJson,
  type HistoryMessage,
  type SessionEvent,
} from "../packages/client/src/index.js";
import { ask, call, expect, goal, horizon, order, sectors, test } from "./support/console.js";
import type { Server, Turn } from "./support/server.js";

const post = async (server: Server, path: string, body: object) => {
  const response = await fetch(`${server.url}/v1/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  expect(response.ok, await response.text()).toBe(true);
};

const read = async <T>(server: Server, path: string): Promise<T> => {
  const response = await fetch(`${server.url}/v1/sessions/s1/${path}`);
  return parseJson(await response.text()) as T;
};

/** All events so far. */
async function eventsOf(server: Server): Promise<SessionEvent[]> {
  const { seq } = await read<{ seq: number }>(server, "state");
  const response = await fetch(`${server.url}/v1/sessions/s1/events?after=0`);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  const events: SessionEvent[] = [];
  for (let text = ""; !events.some((e) => "seq" in e && e.seq >= seq); ) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (text + value).split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("data:")) events.push(parseJson(line.slice("data:".length)) as unknown as SessionEvent);
    }
  }
  await reader.cancel();
  return events;
}

/** The whole history, page by page. */
async function pages(server: Server, direction: "forward" | "backward"): Promise<HistoryMessage[]> {
  const http = new CountersignHttp({ baseUrl: server.url });
  let all: HistoryMessage[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await http.history("s1", { direction, limit: 4, ...(cursor === undefined ? {} : { cursor }) });
    all = direction === "forward" ? [...all, ...page.messages] : [...page.messages, ...all];
    expect(page.has_more).toBe(typeof page.next_cursor === "string");
    if (!page.next_cursor) return all;
    cursor = page.next_cursor;
  }
}

async function same(server: Server): Promise<void> {
  const mine = historyOf(foldAll(emptySession("s1"), await eventsOf(server)));
  expect(mine.length).toBeGreaterThan(1);
  const whole = await new CountersignHttp({ baseUrl: server.url }).history("s1");
  expect(mine).toEqual(whole.messages);
  expect(await pages(server, "forward")).toEqual(mine);
  expect(await pages(server, "backward")).toEqual(mine);
}

const price = (symbol: string) => ({ name: "price", args: `{"symbol":"${symbol}"}` });
const turns: Turn[] = [
  { thinking: "Let me see.", calls: [price("VNM"), price("FPT")] },
  { thinking: "Ask.", ...ask(goal, horizon) },
  { thinking: "Buy.", text: "I would buy.", calls: [...call(order).calls!, price("HPG")] },
  { calls: [{ name: "chart", args: '{"symbol":"VNM"}' }, { name: "lookup", args: "{}" }] },
  ask(sectors),
  ask(sectors),
  { calls: [{ name: "share_thought", args: '{"text":"Almost done."}' }] },
  { calls: [{ name: "write_todos", args: '{"todos":[{"content":"End","status":"completed"}]}' }] },
  { text: "Done." },
];

test("through questions, decisions, comments and a second turn", async ({ serve }) => {
  const server = await serve({ turns });
  await post(server, "sessions/s1/messages", { content: "Start" });
  await same(server);
  await post(server, "approvals/s1_1?wait=true", { answers: { [goal.question]: "Long-term growth" } });
  await same(server);
  const decisions = [{ type: "reject", message: "Too expensive" }];
  await post(server, "approvals/s1_2?wait=true", { decisions, user_edit_content: "Not today" });
  await same(server);
  await post(server, "approvals/s1_3?wait=true", { decisions: [{ type: "reject" }] });
  await same(server);
  await post(server, "approvals/s1_4?wait=true", { answers: { [sectors.question]: ["Banks", "Steel"] } });
  await same(server);
  await post(server, "sessions/s1/messages", { content: "And once more" });
  await same(server);
});

test("after a time-out and after a stop", async ({ serve }) => {
  const server = await serve({ turns: [ask(goal), call(order), { text: "Done." }], questionTimeout: 1 });
  await post(server, "sessions/s1/messages", { content: "Start" });
  // Compared only when nothing can happen in between.
  await expect.poll(async () => (await read<{ pending: string[] }>(server, "state")).pending).toEqual(["s1_2"]);
  await same(server);
  await post(server, "sessions/s1/cancel", {});
  await same(server);
});

test("w2: while a turn has failed, and after it was tried again", async ({ serve }) => {
  const lookup = { name: "lookup", args: "{}" };
  const answer: Turn = { text: "Both.", calls: [...call(order).calls!, lookup] };
  const server = await serve({ turns: [answer, { text: "Done." }], approval: 'levels = ["admin"]', stopsLookup: true });
  await post(server, "sessions/s1/messages", { content: "Start" });
  await post(server, "approvals/s1_2?wait=true", { decisions: [{ type: "approve" }] });
  expect(await read(server, "state")).toMatchObject({ status: "failed", pending: ["s1_1"] });
  await same(server);
  await post(server, "approvals/s1_1", { decisions: [{ type: "approve" }], user_edit_content: "Be quick" });
  await same(server);
  await new CountersignHttp({ baseUrl: server.url }).retry("s1");
  await expect.poll(async () => (await read<{ status: string }>(server, "state")).status).toBe("completed");
  await same(server);
});
