/** The packages as people get them: packed, installed into a fresh folder, checked and run there. `e2e/fresh.spec.ts` builds a page of them. */
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { fakeServer } from "../packages/client/test/support/server.js";
import { examples, freshFolder, OWN, run, web } from "./fresh.js";

/** Their dependencies, and a socket for Node before 22. */
const OTHERS = ["lossless-json", "react", "react-dom", "@types/react", "@types/react-dom", "ws"];
const MINUTES = 60_000;
let folder: string;

beforeAll(async () => void (folder = await freshFolder(OTHERS)), 5 * MINUTES);

afterAll(() => rm(folder, { recursive: true, force: true }));

it("u2: the packages hold what they need, and nothing else", async () => {
  for (const name of OWN) {
    const place = join(folder, "node_modules/@countersign", name);
    expect((await readdir(place)).sort()).toEqual(["LICENSE-APACHE", "LICENSE-MIT", "README.md", "dist", "package.json"]);
    expect(await readdir(join(place, "dist"))).toEqual(expect.arrayContaining(["index.js", "index.d.ts"]));
    if (name === "react") expect(await readFile(join(place, "dist/styles.css"), "utf8")).toContain("@layer countersign");
    for (const licence of ["LICENSE-MIT", "LICENSE-APACHE"]) {
      expect(await readFile(join(place, licence), "utf8")).toBe(await readFile(join(web, "..", licence), "utf8"));
    }
  }
});

const SAMPLE = `
import { CountersignClient, CountersignError, CountersignHttp, emptySession, foldAll, historyOf, parseJson } from "@countersign/client";
import type { AnyCode, ApprovalKind, Decision, ErrorCode, HistoryMessage, JsonObject, Resolution, RunStatus, SessionEvent, StopReason } from "@countersign/client";

const code = (error: unknown): ErrorCode | undefined =>
  CountersignError.is(error, "session_busy") ? error.code satisfies "session_busy" : undefined;
const edit: Decision = { type: "edit", edited_action: { name: "pay", args: parseJson("{}") as JsonObject } };
// @ts-expect-error An edit says what runs instead.
const wrong: Decision = { type: "edit" };
// @ts-expect-error Not a filter of the inbox.
void new CountersignHttp().approvals({ toool: "pay" });
// Values of a newer server have a place, so that no code relies on the known ones.
for (const newer of ["paused"] as string[]) [newer satisfies AnyCode, newer satisfies ApprovalKind, newer satisfies Resolution, newer satisfies RunStatus, newer satisfies StopReason];
export const history = (events: SessionEvent[]): HistoryMessage[] => historyOf(foldAll(emptySession("s"), events));
export const client = new CountersignClient({ url: "ws://127.0.0.1:7410/v1/ws" });
export { code, edit, wrong };
`;

it("u2: their types are strict ones for every way of resolving modules, as in the READMEs' examples", async () => {
  const files: Record<string, string> = { "sample.ts": SAMPLE };
  const [client, react] = [await examples("client", "ts"), await examples("react", "tsx")];
  expect(Math.min(client.length, react.length)).toBeGreaterThan(1);
  for (const [i, code] of client.entries()) files[`client-${i}.ts`] = code;
  for (const [i, code] of react.entries()) files[`react-${i}.tsx`] = code;
  for (const [name, code] of Object.entries(files)) await writeFile(join(folder, name), code);
  for (const [module, moduleResolution] of [["nodenext", "nodenext"], ["esnext", "bundler"]]) {
    const compilerOptions = {
      strict: true, exactOptionalPropertyTypes: true, noEmit: true, skipLibCheck: false, jsx: "react-jsx",
      target: "es2022", lib: ["es2022", "dom", "dom.iterable"], types: [], module, moduleResolution,
    };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: Object.keys(files) }));
    const checked = run(join(web, "node_modules/.bin/tsc"), ["-p", folder], { cwd: folder });
    await checked.catch(({ stdout }: { stdout: string }) => expect(stdout, moduleResolution).toBe(""));
  }
}, 2 * MINUTES);

it("u2: a page loads of them what it uses, and nothing else", async () => {
  const loaded = async (code: string) => {
    await writeFile(join(folder, "used.js"), code);
    const { build } = await import("vite");
    const lib = { entry: join(folder, "used.js"), formats: ["es" as const] };
    const built = await build({ root: folder, configFile: false, logLevel: "error", build: { write: false, lib, rollupOptions: { external: /^react/ } } });
    return [built].flat().flatMap((one) => ("output" in one ? one.output : [])).map((part) => (part.type === "chunk" ? part.code : "")).join("\n");
  };
  // The words of a card, its parts, a connection, and the paths of the HTTP interface.
  const [words, parts, connection, paths] = ["Choose for every call.", "agent-says", "heartbeat_seconds", "/v1/approvals"];
  const uses = async (code: string) => {
    const all = await loaded(code);
    return [words, parts, connection, paths].filter((text) => all.includes(text!));
  };
  const client = 'export { CountersignClient, CountersignHttp } from "@countersign/client";';
  expect(await uses(`${client} export { BareProvider, useInbox, useSession } from "@countersign/react";`)).toEqual([connection, paths]);
  expect(await uses(`${client} export { CountersignProvider, useInbox } from "@countersign/react";`)).toEqual([words, connection, paths]);
  expect(await uses(`${client} export { BareProvider, ApprovalCard } from "@countersign/react";`)).toEqual([parts, connection, paths]);
  expect(await uses('export { fold, historyOf } from "@countersign/client"; export { answerForm } from "@countersign/react/forms";')).toEqual([]);
}, 2 * MINUTES);

it("u2: the client's quick start runs in Node, and approves what was shown", async () => {
  const [quickStart = ""] = await examples("client", "ts");
  const server = await fakeServer();
  try {
    // Node before 22 has no WebSocket of its own; the README says what to do then.
    const socket = 'import { WebSocket } from "ws";\nglobalThis.WebSocket ??= WebSocket;\n';
    await writeFile(join(folder, "socket.js"), socket);
    const code = `import "./socket.js";\n${quickStart.replace("ws://127.0.0.1:7410/v1/ws", server.url)}`;
    await writeFile(join(folder, "quick-start.js"), code);
    const { stdout } = await run(process.execPath, ["quick-start.js"], { cwd: folder, timeout: MINUTES });
    expect(stdout).toBe('approving execute_trade {"symbol": "VNM"}\nDone as it was shown.\n');
    expect(server.received.map((text) => JSON.parse(text).type)).toEqual(["message", "approval"]);
  } finally {
    await server.close();
  }
}, 2 * MINUTES);
