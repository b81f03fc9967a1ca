/** Writes which tests failed, and why in a few lines, to the file of E2E_FAILURES: whoever ran them says it last. */
import { writeFileSync } from "node:fs";
import type { Reporter, TestCase } from "@playwright/test/reporter";

const LINES = 12;
// Colours would be noise in a file.
const ESCAPES = /\u001b\[[0-9;]*m/g;

export default class Failures implements Reporter {
  readonly #failed = new Map<string, TestCase>();

  onTestEnd(test: TestCase): void {
    this.#failed.set(test.id, test);
  }

  onEnd(): void {
    const file = process.env.E2E_FAILURES;
    if (!file) return;
    const failed = [...this.#failed.values()].filter((test) => test.outcome() === "unexpected");
    writeFileSync(file, failed.map(told).join("\n"));
  }

  printsToStdio(): boolean {
    return false;
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
