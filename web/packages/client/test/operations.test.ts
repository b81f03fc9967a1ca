import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { OPERATIONS, type Operations } from "../src/generated/http.js";
import { CountersignError, CountersignHttp, parseJson } from "../src/index.js";

/** What the server would answer, as far as the client reads it. */
const PAGE = {
  agents: [], graphs: [], sessions: [], approvals: [], checkpoints: [], rules: [], records: [], messages: [],
  next_cursor: null, approval_key: "k/1", session_id: "s/1", actions: [],
};

const drain = async (events: AsyncIterable<unknown>) => {
  for await (const _ of events);
};

/** Every operation of the interface, and how the client performs it. The compiler reports missing ones. */
const CALLS: { [K in keyof Operations]: (http: CountersignHttp) => Promise<unknown> } = {
  asyncapi: (http) => http.asyncapi(),
  healthz: (http) => http.health(),
  metrics: (http) => http.metrics(),
  openapi: (http) => http.openapi(),
  readyz: (http) => http.ready(),
  listAgents: (http) => http.agents(),
  getAgentGraph: (http) => http.agentGraph("a/1", "s/1"),
  listApprovals: (http) => http.approvals({ role: "admin", tool: "pay" }),
  getApproval: (http) => http.approval("k/1"),
  decideApproval: (http) => http.decide("k/1", { decisions: [{ type: "approve" }] }),
  previewEdit: (http) => http.previewEdit("k/1", { edited_action: { name: "pay", args: { n: 1 } } }),
  commentApproval: (http) => http.comment("k/1", "Ours?"),
  reassignApproval: (http) => http.reassign("k/1", { role: "admin" }),
  readAudit: (http) => http.audit({ cursor: 3 }),
  verifyAudit: (http) => http.verifyAudit("3:aa"),
  listGraphs: (http) => http.graphs(),
  getGraph: (http) => http.graph("g/1"),
  startRun: (http) => http.startRun("g/1", { state: {} }),
  getPolicy: (http) => http.policy(),
  listRules: (http) => http.rules(),
  revokeRule: (http) => http.revokeRule("r/1"),
  listSessions: (http) => http.sessions(),
  createSession: (http) => http.createSession({ agent: "trader" }),
  changeSession: (http) => http.renameSession("s/1", "Trades"),
  deleteSession: (http) => http.deleteSession("s/1"),
  getSession: (http) => http.session("s/1"),
  cancelTurn: (http) => http.cancel("s/1"),
  listCheckpoints: (http) => http.checkpoints("s/1"),
  followSession: (http) => drain(http.events("s/1", { after: 0 })),
  forkSession: (http) => http.fork("s/1"),
  getSessionGraph: (http) => http.sessionGraph("s/1"),
  readHistory: (http) => http.history("s/1"),
  sendMessage: (http) => http.sendMessage("s/1", { content: "Hi" }),
  retrySession: (http) => http.retry("s/1"),
  getState: (http) => http.state("s/1"),
  editState: (http) => http.editState("s/1", {}),
  // The connection itself is `CountersignClient`'s; from here it gets its address.
  connect: async (http) => void (await fetch(http.webSocketUrl().replace("ws", "http"))),
  listWebhooks: (http) => http.webhooks(),
  listFailedMessages: (http) => http.failedMessages("g/1", { cursor: "3" }),
  retryFailedMessage: (http) => http.retryFailedMessage("g/1", 5),
  retryFailedMessages: (http) => http.retryFailedMessages("g/1"),
  forgetWebhook: (http) => http.forgetWebhook("g/1"),
  testWebhook: (http) => http.testWebhook("g/1"),
  wireSchema: (http) => http.wireSchema(),
};

const NAMES: Record<string, string> = { session_id: "s/1", approval_key: "k/1", rule_id: "r/1", n: "5" };

describe("u2: the HTTP interface", () => {
  it("has a method for every operation of the published document, with its body where it has one", async () => {
    const { paths } = JSON.parse(await readFile(new URL("../../../../docs/openapi.json", import.meta.url), "utf8"));
    const seen: string[] = [];
    const real = globalThis.fetch;
    globalThis.fetch = (async (url: string, init: RequestInit = {}) => {
      seen.push(`${init.method ?? "GET"} ${url.replace("http://server", "")}${init.body ? " with a body" : ""}`);
      const { accept = "" } = (init.headers ?? {}) as Record<string, string>;
      return new Response(JSON.stringify(PAGE), { headers: { "content-type": accept.split(",")[0]! } });
    }) as typeof fetch;
    try {
      for (const [path, methods] of Object.entries<Record<string, any>>(paths)) {
        for (const [method, { operationId, requestBody }] of Object.entries(methods)) {
          const name = operationId as keyof Operations;
          expect(CALLS, `no method for ${name}`).toHaveProperty(name);
          seen.length = 0;
          await CALLS[name](new CountersignHttp({ baseUrl: "http://server" }));
          const named = /^\/v1\/agents/.test(path) ? "a/1" : "g/1";
          const place = path.replace(/\{(\w+)\}/g, (_, part: string) => encodeURIComponent(NAMES[part] ?? named));
          expect(seen.map((asked) => asked.replace(/\?[^ ]*/, ""))).toEqual([
            `${method.toUpperCase()} ${place}${requestBody ? " with a body" : ""}`,
          ]);
          expect(OPERATIONS[name]).toEqual({ method: method.toUpperCase(), path });
        }
      }
    } finally {
      globalThis.fetch = real;
    }
    const all = Object.values<Record<string, any>>(paths).flatMap((methods) => Object.values(methods));
    expect(Object.keys(CALLS).length).toBe(all.length);
  });

  const answering = (answer: () => Response | Promise<Response>) =>
    new CountersignHttp({ baseUrl: "http://server/countersign", fetch: (async () => answer()) as typeof fetch });
  const refusal = (http: CountersignHttp) => http.session("s").then(() => undefined, (error: unknown) => error);

  it("says by its code why a request was refused, with what programs may want to know", async () => {
    const problem = {
      type: "about:blank", title: "Conflict", status: 409, code: "approval_already_resolved",
      detail: '"s_1" is already resolved', details: { resolution: "decided", by: "bob" },
    };
    const error = await refusal(answering(() => new Response(JSON.stringify(problem), { status: 409 })));
    expect(CountersignError.is(error, "approval_already_resolved")).toBe(true);
    expect(CountersignError.is(error, "session_busy")).toBe(false);
    expect(error).toMatchObject({ status: 409, message: '"s_1" is already resolved', details: { by: "bob" } });
  });

  it("asks for no other place where an id would be one in an address", async () => {
    let asked = 0;
    const http = answering(() => (asked++, new Response("{}")));
    for (const id of ["..", ".", ""]) {
      await expect(http.session(id)).rejects.toMatchObject({ code: "invalid_session_id", message: expect.stringContaining(`"${id}" is no session_id`) });
      await expect(http.deleteSession(id)).rejects.toMatchObject({ code: "invalid_session_id" });
      await expect(http.events(id).next()).rejects.toMatchObject({ code: "invalid_session_id" });
      await expect(http.approval(id)).rejects.toMatchObject({ code: "not_found" });
    }
    expect(asked).toBe(0);
    await http.session("...");
    expect(asked).toBe(1);
  });

  it("has codes of its own for answers that are not the server's", async () => {
    const page = (status: number) => answering(() => new Response("<html>Sorry</html>", { status }));
    expect(await refusal(page(502))).toMatchObject({ code: "http_502", status: 502 });
    expect(await refusal(page(401))).toMatchObject({ code: "unauthenticated" });
    const down = answering(() => Promise.reject(new TypeError("fetch failed")));
    expect(await refusal(down)).toMatchObject({ code: "unreachable", message: "fetch failed" });
  });

  it("takes no page of a proxy's for an answer, whatever its status", async () => {
    const page = () => answering(() => new Response("<html>Sign in</html>", { headers: { "content-type": "text/html; charset=utf-8" } }));
    const error = { name: "CountersignError", code: "http_200", status: 200, message: expect.stringContaining("text/html") };
    expect(await refusal(page())).toMatchObject(error);
    await expect(page().events("s").next()).rejects.toMatchObject(error);
    await expect(page().streamMessage("s", { content: "Hi" }).next()).rejects.toMatchObject(error);
    await expect(page().auditLines()).rejects.toMatchObject(error);
    await expect(page().metrics()).rejects.toMatchObject(error);
  });

  it("says of a stream that breaks that the server is unreachable, unless whoever reads it has ended it", async () => {
    const breaking = () => {
      const controllers: ReadableStreamDefaultController<Uint8Array>[] = [];
      const body = new ReadableStream<Uint8Array>({ start: (controller) => void controllers.push(controller) });
      const [stream] = controllers;
      stream!.enqueue(new TextEncoder().encode('data: {"type":"message_stop","session_id":"s","seq":1}\n\n'));
      return { stream: stream!, http: answering(() => new Response(body, { headers: { "content-type": "text/event-stream" } })) };
    };
    const broken = breaking();
    const events = broken.http.events("s");
    expect(await events.next()).toMatchObject({ value: { seq: 1 } });
    broken.stream.error(new TypeError("terminated"));
    await expect(events.next()).rejects.toMatchObject({ name: "CountersignError", code: "unreachable", message: "terminated" });

    const [ended, gaveUp] = [breaking(), new AbortController()];
    const others = ended.http.events("s", { signal: gaveUp.signal });
    await others.next();
    gaveUp.abort(new Error("Enough."));
    ended.stream.error(gaveUp.signal.reason);
    await expect(others.next()).rejects.toThrow("Enough.");
  });

  it("streams the events of a turn, whole across chunks, and ends with the reason of a stream that cannot go on", async () => {
    const lines = [
      ": keep alive\n\n",
      `id: 1\ndata: {"type":"message_start","message_id":"m","role":"user","session_id":"s","seq":1}\n\n`,
      `data: {"type":"content_block_delta","message_id":"m","index":0,"delta":{"text":"Thảo"},"session_id":"s"}\n\n`,
      `data: {"type":"of_a_newer_server"}\n\n`,
      `data: {"type":"of_a_newer_server","session_id":"s","seq":2}\n\n`,
      `data: {"type":"error","code":"unauthenticated","message":"revoked"}\n\n`,
    ];
    const bytes = new TextEncoder().encode(lines.join(""));
    const body = () =>
      new ReadableStream<Uint8Array>({
        start(controller) {
          for (let i = 0; i < bytes.length; i += 7) controller.enqueue(bytes.slice(i, i + 7));
          controller.close();
        },
      });
    const seen: unknown[] = [];
    const follow = async () => {
      for await (const event of answering(() => new Response(body())).events("s")) seen.push(event);
    };
    await expect(follow()).rejects.toMatchObject({ code: "unauthenticated" });
    expect(seen).toMatchObject([{ seq: 1 }, { delta: { text: "Thảo" } }, { seq: 2 }]);
  });

  it("ends the request when whoever reads a stream stops", async () => {
    let cancelled = false;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new TextEncoder().encode('data: {"type":"message_stop"}\n')),
      cancel: () => void (cancelled = true),
    });
    for await (const _ of answering(() => new Response(body)).streamMessage("s", { content: "Hi" })) break;
    expect(cancelled).toBe(true);
  });

  it("knows the address for the connection", () => {
    expect(answering(() => new Response()).webSocketUrl()).toBe("ws://server/countersign/v1/ws");
    expect(new CountersignHttp({ baseUrl: "https://server" }).webSocketUrl()).toBe("wss://server/v1/ws");
  });

  it("finds the server also where its address has slashes at its end", async () => {
    const asked: string[] = [];
    const fetch = (async (url: string) => (asked.push(url), Response.json({ agents: [] }))) as typeof globalThis.fetch;
    for (const baseUrl of ["https://server/", "https://server/countersign//", "/"]) await new CountersignHttp({ baseUrl, fetch }).agents();
    expect(asked).toEqual(["https://server/v1/agents", "https://server/countersign/v1/agents", "/v1/agents"]);
    expect(new CountersignHttp({ baseUrl: "https://server/" }).webSocketUrl()).toBe("wss://server/v1/ws");
  });

  it("says which baseUrl leads to no server, and what would", () => {
    for (const baseUrl of ["", "/countersign", "localhost:7410", "tauri://localhost"]) {
      const url = () => new CountersignHttp({ baseUrl }).webSocketUrl();
      expect(url, baseUrl).toThrow(`The baseUrl ${JSON.stringify(baseUrl)} is not the address of a server: give one like "http://127.0.0.1:7410".`);
    }
  });

  it("waits with a decision until the turn pauses, where it is told to, and keeps every digit of an edit", async () => {
    const asked: [string, string][] = [];
    const fetch = (async (url: string, init: RequestInit) => {
      asked.push([url, String(init.body)]);
      return new Response('{"session_id":"s","status":"completed","text":"Done","pending":[],"interruptions":[]}');
    }) as typeof globalThis.fetch;
    const http = new CountersignHttp({ fetch });
    const args = { n: parseJson("9007199254740993") };
    const outcome = await http.decideAndWait("s_1", { decisions: [{ type: "edit", edited_action: { name: "pay", args } }] });
    expect(outcome).toMatchObject({ status: "completed" });
    expect(asked).toEqual([
      ["/v1/approvals/s_1?wait=true", '{"decisions":[{"type":"edit","edited_action":{"name":"pay","args":{"n":9007199254740993}}}]}'],
    ]);
  });
});
