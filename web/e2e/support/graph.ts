/** The example that serves a graph of its own, as one server for one test. */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { binary, listening, newFolder } from "./server.js";

export interface GraphServer {
  url: string;
  /** Begin a newsletter. */
  begin(session: string, state: object): Promise<void>;
  /** End it as a crash would, and start it again on the same port and store. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** `people`: each connects with the token `NAME-token`; without any, no token is needed. */
export async function startGraph(people: string[]): Promise<GraphServer> {
  const folder = await newFolder("e2e-graph");
  const outbox = join(folder, "outbox");
  await mkdir(outbox);
  let child: ChildProcess | undefined;
  let url = "";
  let port = "0";

  const start = async () => {
    const args = ["--db", join(folder, "runs.db"), "--outbox", outbox, "--listen", `127.0.0.1:${port}`];
    for (const name of people) args.push("--person", name);
    // Cargo puts it beside the program.
    const started = spawn(join(dirname(binary()), "served_graph"), args, { stdio: ["ignore", "pipe", "pipe"] });
    child = started;
    [, url, port] = await listening(started);
  };
  const kill = async () => {
    const ending = child;
    child = undefined;
    if (!ending || ending.exitCode !== null || ending.signalCode !== null) return;
    const gone = new Promise((resolve) => ending.once("exit", resolve));
    ending.kill("SIGKILL");
    await gone;
  };

  await start();
  return {
    url,
    begin: async (session, state) => {
      const authorization: Record<string, string> = people[0] ? { authorization: `Bearer ${people[0]}-token` } : {};
      const response = await fetch(`${url}/v1/graphs/newsletter/runs`, {
        method: "POST",
        headers: { "content-type": "application/json", ...authorization },
        body: JSON.stringify({ session_id: session, state }),
      });
      if (!response.ok) throw new Error(`the run did not begin: ${await response.text()}`);
    },
    restart: async () => {
      await kill();
      await start();
    },
    stop: async () => {
      await kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
