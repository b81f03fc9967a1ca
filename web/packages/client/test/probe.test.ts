import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeSocket, last, make } from "./support/socket.js";

beforeEach(() => {
  FakeSocket.all = [];
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** The errors reported while connections fail three times, and the requests over HTTP. */
async function failing(fetch: (mode: RequestMode | undefined) => Promise<Response>, page?: string) {
  const asked: string[] = [];
  vi.stubGlobal("fetch", (url: URL, { mode }: RequestInit) => (asked.push(`${mode ?? "cors"} ${url}`), fetch(mode)));
  vi.stubGlobal("location", page === undefined ? undefined : { origin: page });
  const client = make({ isUnauthorized: undefined });
  const errors: unknown[] = [];
  client.on("error", (error) => void errors.push(error));
  client.connect();
  for (let i = 0; i < 3; i++) {
    last().die();
    await vi.advanceTimersByTimeAsync(2_000);
  }
  expect(client.state).toBe("reconnecting");
  return { client, errors, asked };
}

describe("u2: a server that does not let a page connect", () => {
  const detail = 'this server answers to localhost only';
  const refused = () => new Response(JSON.stringify({ code: "forbidden", detail }), { status: 403 });

  it("is told of once, in the server's words where they can be read, and again after a connection", async () => {
    const { client, errors } = await failing(async () => refused());
    expect(errors).toEqual([{ type: "error", code: "forbidden", message: detail }]);
    last().hello();
    last().die();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(errors).toHaveLength(1);
    last().die();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(errors).toHaveLength(2);
    client.close();
  });

  it("is told of where a page may not read what is answered, with what would be right", async () => {
    const { errors, asked } = await failing(async (mode) => {
      if (mode !== "no-cors") throw new TypeError("Failed to fetch");
      return new Response();
    }, "http://localhost:5173");
    expect(asked.slice(0, 2)).toEqual(["cors http://test/v1/agents", "no-cors http://test/v1/agents"]);
    expect(errors).toEqual([expect.objectContaining({ code: "forbidden", message: expect.stringContaining("answers, but not to pages of http://localhost:5173: name that origin in the server's allowed_origins") })]);
  });

  it("is told of where the address is not a server's, with what would be right", async () => {
    const page = () => new Response("<!doctype html>", { headers: { "content-type": "text/html; charset=utf-8" } });
    for (const answer of [() => new Response("", { status: 404 }), page]) {
      const { errors } = await failing(async () => answer());
      expect(errors).toEqual([{ type: "error", code: "not_found", message: expect.stringMatching(/no server of Countersign at ws:\/\/test\/v1\/ws.*as ws:\/\/127\.0\.0\.1:7410\/v1\/ws/) }]);
    }
    // A list of agents shows that there is a server, and so does a proxy's error.
    for (const answer of [() => Response.json({ agents: [] }), () => new Response("<html>", { status: 502, headers: { "content-type": "text/html" } })]) {
      expect((await failing(async () => answer())).errors).toEqual([]);
    }
  });

  it("is not suspected where nothing answers, nor of its own pages, nor where there is no page", async () => {
    const silent = () => Promise.reject(new TypeError("Failed to fetch"));
    expect((await failing(silent, "http://localhost:5173")).errors).toEqual([]);
    for (const page of ["http://test", undefined]) {
      const { errors, asked } = await failing(silent, page);
      expect(errors).toEqual([]);
      expect(new Set(asked)).toEqual(new Set(["cors http://test/v1/agents"]));
    }
  });
});

it("u2: a page is told that its token is refused also where it gives the address without the server's name", async () => {
  const asked: string[] = [];
  vi.stubGlobal("location", { origin: "https://page.test", href: "https://page.test/orders/7?x=1" });
  vi.stubGlobal("fetch", async (url: URL) => (asked.push(String(url)), new Response("{}", { status: 401 })));
  const client = make({ url: "/countersign/v1/ws", token: "old", isUnauthorized: undefined });
  client.connect();
  last().die();
  await vi.advanceTimersByTimeAsync(0);
  expect([client.state, asked]).toEqual(["unauthorized", ["https://page.test/countersign/v1/agents"]]);
});

describe("u2: a server that does not say why it could not be reached", () => {
  /** The questions that are open. */
  const hanging = () => {
    const open = new Set<AbortSignal>();
    vi.stubGlobal("fetch", (_: URL, { signal }: RequestInit) => new Promise((_, reject) => {
      if (!signal) return void open.add(new AbortController().signal);
      open.add(signal);
      signal.addEventListener("abort", () => (open.delete(signal), reject(signal.reason)));
    }));
    const client = make({ isUnauthorized: undefined });
    client.connect();
    last().die();
    return { client, open };
  };

  it("is asked no longer than it is waited for, so that questions do not use up a browser's connections", async () => {
    const { client, open } = hanging();
    await vi.advanceTimersByTimeAsync(9_000);
    expect([open.size, FakeSocket.all.length]).toEqual([1, 1]);
    await vi.advanceTimersByTimeAsync(1_200);
    expect([open.size, FakeSocket.all.length]).toEqual([0, 2]);
    client.close();
  });

  it("is asked no longer once the client is closed, so that a program can end", async () => {
    const { client, open } = hanging();
    await vi.advanceTimersByTimeAsync(0);
    expect(open.size).toBe(1);
    client.close();
    await vi.advanceTimersByTimeAsync(0);
    expect([open.size, vi.getTimerCount()]).toEqual([0, 0]);
  });
});
