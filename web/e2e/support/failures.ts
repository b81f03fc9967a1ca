/** Writes which tests failed, and why in a few lines, to the file of E2E_FAILURES, for the runner's final report. */
import { writeFileSync } from "node:fs";
import { freemem, loadavg } from "node:os";
import type { Reporter, TestCase, TestResult } from "@playwright/test/reporter";

/** What a test attaches when it fails: what a page shows, and all that a server has printed. */
export const SEEN = "page";
export const PRINTED = "server";

const ERROR_LINES = 6;
const PAGE_LINES = 16;
const SERVER_LINES = 4;
// Colours would be noise in a file.
const ESCAPES = /\u001b\[[0-9;]*m/g;

const TICK_MS = 1_000;

export default class Failures implements Reporter {
  readonly #failed: string[] = [];
  readonly #machine = new Machine();

  onTestEnd(test: TestCase, result: TestResult): void {
    if (test.outcome() === "unexpected") this.#failed.push([...told(test, result), this.#machine.state(), ""].join("\n    "));
  }

  onEnd(): void {
    const file = process.env.E2E_FAILURES;
    if (file) writeFileSync(file, this.#failed.join("\n"));
  }

  printsToStdio(): boolean {
    return false;
  }
}

/** What the machine was doing: tests that only wait time out together when it stalls. */
class Machine {
  #last = performance.now();
  #wall = Date.now();
  #stalls: string[] = [];

  constructor() {
    setInterval(() => this.#tick(), TICK_MS).unref();
  }

  #tick(): void {
    const [late, jump] = [performance.now() - this.#last, Date.now() - this.#wall];
    this.#last += late;
    this.#wall += jump;
    if (Math.max(late, Math.abs(jump)) < 5 * TICK_MS) return;
    this.#stalls.push(`${Math.round(late / 1000)} s by its own clock and ${Math.round(jump / 1000)} s by the calendar until ${new Date().toISOString()}`);
  }

  state(): string {
    const gigabytes = (freemem() / 2 ** 30).toFixed(1);
    const stalls = this.#stalls.slice(-5).join(", ") || "none";
    return `ended ${new Date().toISOString()}, load ${loadavg()[0]?.toFixed(1)}, ${gigabytes} GiB free; seconds that took longer: ${stalls}`;
  }
}

function told(test: TestCase, { errors, attachments }: TestResult): string[] {
  const { file, line } = test.location;
  // Behind the name of the browser and the file.
  const title = test.titlePath().filter(Boolean).slice(2).join(" › ");
  const why = errors.flatMap(({ message = "", location }) => [
    ...lines(message).slice(0, ERROR_LINES),
    ...(location ? [`at ${location.file.replace(/.*[\\/]/, "")}:${location.line}`] : []),
  ]);
  const attached = (kind: string) => attachments.filter(({ name }) => name === kind).map(({ body }) => body?.toString() ?? "");
  return [
    `${file.replace(/.*[\\/]/, "")}:${line} › ${title}`,
    ...why,
    ...attached(SEEN).flatMap((text) => lines(text).slice(-PAGE_LINES)),
    ...attached(PRINTED).flatMap((text) => lines(text).slice(-SERVER_LINES)),
  ];
}

const lines = (text: string) => text.replace(ESCAPES, "").split("\n").filter((line) => line.trim());
