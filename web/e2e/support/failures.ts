/** Writes which tests failed, and why in a few lines, to the file of E2E_FAILURES: whoever ran them says it last. */
import { writeFileSync } from "node:fs";
import { freemem, loadavg } from "node:os";
import type { Reporter, TestCase, TestResult } from "@playwright/test/reporter";

const LINES = 12;
// Colours would be noise in a file.
const ESCAPES = /\u001b\[[0-9;]*m/g;

const TICK_MS = 1_000;

export default class Failures implements Reporter {
  readonly #failed = new Map<string, TestCase>();
  readonly #machine = new Machine();
  readonly #timedOut: string[] = [];

  onTestEnd(test: TestCase, { status }: TestResult): void {
    this.#failed.set(test.id, test);
    if (status === "timedOut") this.#timedOut.push(`${test.title.slice(0, 60)}: ${this.#machine.state()}`);
  }

  onEnd(): void {
    const file = process.env.E2E_FAILURES;
    if (!file) return;
    const failed = [...this.#failed.values()].filter((test) => test.outcome() === "unexpected");
    writeFileSync(file, [...failed.map(told), ...this.#timedOut].join("\n"));
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

function told(test: TestCase): string {
  const { file, line } = test.location;
  // Behind the name of the browser and the file.
  const title = test.titlePath().filter(Boolean).slice(2).join(" › ");
  const errors = test.results.at(-1)?.errors ?? [];
  const why = errors.flatMap(({ message = "", location }) => [
    ...message.replace(ESCAPES, "").split("\n").filter((l) => l.trim()).slice(0, LINES),
    ...(location ? [`at ${location.file.replace(/.*[\\/]/, "")}:${location.line}`] : []),
  ]);
  return [`${file.replace(/.*[\\/]/, "")}:${line} › ${title}`, ...why.map((l) => `    ${l}`), ""].join("\n");
}
