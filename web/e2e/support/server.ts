/** A real Countersign server for one test: its own folder, configuration, script, store and port. */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, statfs, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve as resolvePath } from "node:path";
import { promisify } from "node:util";

export interface ToolCall {
  id?: string;
  name: string;
  /** JSON text, because a JavaScript number could not carry `1.10` or `9007199254740993`. */
  args: string;
}

/** One entry of the scripted model. */
export interface Turn {
  thinking?: string;
  text?: string;
  calls?: ToolCall[];
  /** Its call fails for good, with this text. */
  error?: string;
  delay_ms?: number;
}

export interface ServerOptions {
  turns: Turn[];
  /** What comes after them: an error, or they from the beginning. */
  atEnd?: "repeat";
  /** Seconds until a request times out. */
  timeout?: number;
  /** Ask for this token. */
  token?: string;
  /** Ask for a token, and take those of these people: each one's name with `-token` behind it. */
  people?: Record<string, string[]>;
  /** More of the approval of `execute_trade`, as TOML: `levels = ["admin"]`. */
  approval?: string;
  /** Seconds until a question goes unanswered. */
  questionTimeout?: number;
  /** `execute_trade` has a line about each call: the model's own, or one from a template. */
  says?: "model" | "template";
  /** Pages of these origins may use the server. */
  origins?: string[];
  /** Files of a workspace; with them the agent has the tools to change them. */
  files?: Record<string, string>;
  /** What another agent says, which the agent can ask by its tool `ask_helper`. It may trade too. */
  helper?: Turn[];
  /** An MCP server of the agent, called `shop`, whose tools run without approval: its program. */
  mcp?: string[];
  /** Which of its tools are asked about. */
  mcpAsks?: "never" | "always";
  /** `lookup` waits for approval, and a guardrail stops its result, which fails the turn. */
  stopsLookup?: boolean;
  /** Most model calls in a turn of the agent. */
  maxTurns?: number;
  /** Whether the model takes images; it does. */
  images?: boolean;
  /** The address of its store, which is a file. */
  store?: string;
  /** More of the configuration, as TOML. */
  more?: string;
  /** Tools in it that the agent has. */
  tools?: string[];
  /** Listen here, not where the system likes. */
  port?: number;
}

export interface Server {
  url: string;
  /** End it as a crash would. */
  kill(): Promise<void>;
  /** Change its configuration file while it runs. */
  edit(change: (text: string) => string): Promise<void>;
  /** Start it again on the same port and store. */
  restart(): Promise<void>;
  /** What it has printed. */
  printed(): string;
  stop(): Promise<void>;
}

const LISTENING = /listening on (http:\/\/[\d.]+:(\d+))/;

/** The program to test. */
export function binary(): string {
  if (!process.env.COUNTERSIGN_BIN) throw new Error("Set COUNTERSIGN_BIN to the countersign binary to test.");
  // Relative to where npm was called, which is not where it runs the tests.
  return resolvePath(process.env.INIT_CWD ?? ".", process.env.COUNTERSIGN_BIN);
}

const run = promisify(execFile);

/** As in a terminal beside the browser. */
export async function terminal(url: string, ...command: string[]): Promise<void> {
  await run(binary(), [...command, "--yes", "--url", url]);
}

/**
 * A folder for a test's server, in memory where there is room for it: each append waits for the disk, which what
 * compilers write keeps busy for long, and what a disk keeps is not what a browser's tests are about.
 */
export async function newFolder(kind: string): Promise<string> {
  const memory = await statfs("/dev/shm").catch(() => undefined);
  const roomy = memory && memory.bavail * memory.bsize > 2 ** 30;
  return mkdtemp(join(roomy ? "/dev/shm" : tmpdir(), `countersign-${kind}-`));
}

export async function startServer(options: ServerOptions): Promise<Server> {
  const folder = await newFolder("e2e");
  await writeFile(join(folder, "script.json"), script(options.turns, options.atEnd));
  for (const [name, text] of Object.entries(options.files ?? {})) await writeFile(join(folder, name), text);

  if (options.helper) await writeFile(join(folder, "helper.json"), script(options.helper));

  let child: ChildProcess | undefined;
  let url = "";
  let port = String(options.port ?? 0);
  let printed = "";

  const start = async () => {
    const file = join(folder, "countersign.toml");
    await writeFile(file, config(port, options));
    const started = spawn(binary(), ["serve", "--config", file], {
      cwd: folder,
      env: { ...process.env, E2E_TOKEN: options.token },
      stdio: ["ignore", "pipe", "pipe"],
    });
    child = started;
    started.stderr.on("data", (data: Buffer) => (printed += data.toString()));
    [, url, port] = await listening(started);
  };
  const end = async (signal: NodeJS.Signals) => {
    const ending = child;
    child = undefined;
    if (!ending || ending.exitCode !== null || ending.signalCode !== null) return;
    const gone = new Promise((resolve) => ending.once("exit", resolve));
    ending.kill(signal);
    await gone;
  };

  await start();
  return {
    url,
    kill: () => end("SIGKILL"),
    edit: async (change) => {
      const file = join(folder, "countersign.toml");
      await writeFile(file, change(await readFile(file, "utf8")));
    },
    restart: start,
    printed: () => printed,
    stop: async () => {
      await end("SIGKILL");
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/**
 * A port that stays free while nobody listens on it, for a server that is started again. The system takes the ports
 * of outgoing connections from 32768 on, so there any other test could get it in between.
 */
export async function quietPort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const probe = createServer();
    const free = await new Promise<boolean>((resolve) => {
      probe.once("error", () => resolve(false));
      probe.listen(port, "127.0.0.1", () => resolve(true));
    });
    await new Promise((resolve) => probe.close(resolve));
    if (free) return port;
  }
}

export function listening(child: ChildProcess): Promise<[string, string, string]> {
  return new Promise((resolve, reject) => {
    let output = "";
    const read = (data: Buffer) => {
      output += data.toString();
      const match = LISTENING.exec(output);
      if (match) resolve([match[0], match[1]!, match[2]!]);
    };
    child.stdout?.on("data", read);
    child.stderr?.on("data", (data: Buffer) => (output += data.toString()));
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}:\n${output}`)));
  });
}

const STOPS_LOOKUP = `approval = { timeout = 0 }
output_guardrails = ["leak"]
[guardrails.leak]
command = ["/bin/echo", '{"trip": true}']
`;

const HELPER = `
[models.helper]
provider = "scripted"
script = "helper.json"
[agents.helper]
model = "helper"
tools = ["execute_trade", "ask_user_question"]
[tools.ask_helper]
agent = "helper"
description = "Knows how to trade."
`;

function script(turns: Turn[], atEnd?: string): string {
  const entries = turns.map(({ calls, ...rest }) => {
    const fields = Object.entries(rest).map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`);
    if (calls) {
      const list = calls.map((c) => {
        const id = c.id === undefined ? "" : `"id": ${JSON.stringify(c.id)}, `;
        return `{${id}"name": ${JSON.stringify(c.name)}, "args": ${c.args}}`;
      });
      fields.push(`"tool_calls": [${list.join(", ")}]`);
    }
    return `{${fields.join(", ")}}`;
  });
  return `{"turns": [${entries.join(",\n")}]${atEnd ? `, "at_end": ${JSON.stringify(atEnd)}` : ""}}`;
}

/**
 * `execute_trade` waits for approval and answers with its arguments; `lookup` just runs; `price` says what it
 * does; `chart` is shown as content.
 */
function config(
  port: string,
  { timeout = 300, token, questionTimeout, says, mcpAsks = "never", origins = [], ...more }: ServerOptions,
): string {
  const { approval = "", people = {}, files, helper, mcp } = more;
  const onFolder = (files ? ', "edit_file", "apply_patch", "shell"' : "") + (helper ? ', "ask_helper"' : "") + (more.tools ?? []).map((name) => `, ${JSON.stringify(name)}`).join("");
  return `
locale = "en"
[server]
listen = "127.0.0.1:${port}"
allowed_origins = ${JSON.stringify(origins)}
[store]
url = "${more.store ?? "sqlite:test.db"}"
[models.demo]
provider = "scripted"
script = "script.json"
images = "${(more.images ?? true) ? "all" : "none"}"
[agents.trader]
model = "demo"
instructions = "You trade for the user."
${more.maxTurns === undefined ? "" : `max_turns = ${more.maxTurns}`}
tools = ["execute_trade", "lookup", "price", "chart", "ask_user_question", "write_todos", "share_thought"${onFolder}]
${mcp ? `mcp = ["shop"]\n[mcp.shop]\ncommand = ${JSON.stringify(mcp)}\nrequire_approval = "${mcpAsks}"` : ""}
${files ? '[workspace]\npath = "."' : ""}
${helper ? HELPER : ""}
[tools.execute_trade]
description = "Place an order."
command = ["/bin/cat"]
${says === undefined ? "" : `content_message = ${says === "model" ? "true" : '"Order {{ args.symbol }}"'}`}
approval = { timeout = ${timeout}, allowed_decisions = ["approve", "edit", "reject"]${approval && `, ${approval}`} }
[tools.execute_trade.parameters]
type = "object"
required = ["symbol", "quantity"]
[tools.execute_trade.parameters.properties]
symbol = { type = "string" }
quantity = { type = "integer", maximum = 1000 }
price = { type = "number" }
order_ref = { type = "integer" }
note = { type = "string" }
[tools.lookup]
description = "Look up a price."
command = ["/bin/cat"]
parameters = { type = "object", properties = { symbol = { type = "string" } } }
${more.stopsLookup ? STOPS_LOOKUP : ""}
[tools.price]
description = "The price of a share."
command = ["/bin/cat"]
parameters = { type = "object", properties = { symbol = { type = "string" } } }
content_message = "Price of {{ args.symbol }}"
[tools.chart]
description = "Draw a chart."
command = ["/bin/cat"]
parameters = { type = "object", properties = { symbol = { type = "string" } } }
stream = { display_as_content = true }
${questionTimeout === undefined ? "" : `[tools.ask_user_question]\napproval = { timeout = ${questionTimeout} }\n`}
${token === undefined ? "" : '[[auth.tokens]]\nsubject = "alice"\nroles = ["user"]\ntoken_env = "E2E_TOKEN"\n'}
${more.more ?? ""}
${Object.entries(people).map(([name, roles]) => person(name, roles, `${name}-token`)).join("")}`;
}

/** A person of the configuration. It has the token's digest, as a person added later must. */
export function person(name: string, roles: string[], token: string): string {
  const digest = createHash("sha256").update(token).digest("hex");
  return `[[auth.tokens]]\nsubject = "${name}"\nroles = ${JSON.stringify(roles)}\ntoken_sha256 = "${digest}"\n`;
}
