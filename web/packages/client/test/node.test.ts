import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import WebSocket from "ws";
import { afterEach, expect, it } from "vitest";
import { CountersignClient, emptySession, fold, pendingApprovals, stringifyJson, type SessionView } from "../src/index.js";
import { fakeServer, type FakeServer } from "./support/server.js";

let server: FakeServer;
let client: CountersignClient;
afterEach(async () => {
  client.close();
  await server?.close();
});

/** The view as soon as it is as wanted; the test's time limit bounds it. */
const until = (wanted: (view: SessionView) => boolean) => {
  let view = emptySession("s");
  return new Promise<SessionView>((resolve) => {
    client.on("event", (event) => {
      view = fold(view, event);
      if (wanted(view)) resolve(view);
    });
  });
};

it("u2: talks over a socket of another implementation, keeps digits, and continues from its seq", async () => {
  server = await fakeServer();
  client = new CountersignClient({ url: server.url, webSocket: WebSocket, backoff: { firstMs: 5 } });
  const waiting = until((view) => view.status === "awaiting_input");
  client.connect();
  await client.sendMessage({ session_id: "s", content: "Buy" });
  const [request] = pendingApprovals(await waiting);
  expect(stringifyJson(request?.actions[0]?.args)).toBe('{"symbol":"VNM","price":1.10,"n":9007199254740993}');

  server.drop();
  await expect.poll(() => server.received.at(-1)).toBe('{"type":"subscribe","session_id":"s","after":5}');

  const completed = until((view) => view.status === "completed");
  await client.reply(request!, { decisions: [{ type: "approve" }] });
  expect((await completed).lastSeq).toBe(11);
});

it("u2: says so where nothing listens, and goes on trying", async () => {
  server = await fakeServer();
  await server.close();
  client = new CountersignClient({ url: server.url, webSocket: WebSocket, backoff: { firstMs: 5 } });
  const states: string[] = [];
  const tried = new Promise<void>((resolve) => {
    client.on("state", (state) => states.push(state) >= 2 && resolve());
  });
  client.connect();
  await tried;
  expect(states).toEqual(["connecting", "reconnecting"]);
});

it("u2: asks over HTTP whether the token is refused, since a socket does not say why it could not be opened", async () => {
  const asked: unknown[] = [];
  const refusing = createServer(({ url, headers }, response) => {
    asked.push([url, headers.authorization]);
    response.writeHead(401).end("{}");
  });
  // As in a browser, which does not show the answer to an upgrade.
  refusing.on("upgrade", (_, socket) => socket.end("HTTP/1.1 401 Unauthorized\r\n\r\n"));
  await new Promise<void>((resolve) => refusing.listen(0, "127.0.0.1", resolve));
  const { port } = refusing.address() as AddressInfo;
  client = new CountersignClient({ url: `ws://127.0.0.1:${port}/v1/ws`, token: "old", webSocket: WebSocket, backoff: { firstMs: 5 } });
  client.connect();
  try {
    await expect.poll(() => client.state).toBe("unauthorized");
    expect(asked).toEqual([["/v1/agents", "Bearer old"]]);
  } finally {
    refusing.close();
  }
});

it("u2: says what is missing where there is no WebSocket", async () => {
  server = await fakeServer();
  const { WebSocket: global } = globalThis;
  Reflect.deleteProperty(globalThis, "WebSocket");
  try {
    client = new CountersignClient({ url: server.url });
    expect(() => client.connect()).toThrow("There is no global WebSocket here: give the client one");
  } finally {
    if (global) globalThis.WebSocket = global;
  }
});
