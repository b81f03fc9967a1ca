// @vitest-environment jsdom
/** The README's example of a custom card, unchanged. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ComponentType } from "react";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { CountersignClient, type ApprovalView } from "@countersign/client";
import { button, click, request, show, write } from "./page.js";

let folder: string;
let Card: ComponentType<{ approval: ApprovalView }>;
beforeAll(async () => {
  const readme = await readFile(join(import.meta.dirname, "../README.md"), "utf8");
  const code = readme.split("```tsx\n").map((part) => part.split("```")[0]!).find((part) => part.includes("function OneCall"));
  folder = await mkdtemp(join(import.meta.dirname, "readme-"));
  await writeFile(join(folder, "card.tsx"), code!.replace('"@countersign/react"', '"../../src/index.js"').replace('"@countersign/react/forms"', '"../../src/forms/index.js"'));
  ({ Card } = (await import(/* @vite-ignore */ join(folder, "card.tsx"))) as { Card: typeof Card });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const long = (digest: string) => request({ digest, actions: [{ name: "pay", args: { text: `${digest} `.repeat(2000) }, digest }] });

it("u2: the README's card of one's own approves what was seen and may be approved, and nothing else", async () => {
  const reply = vi.spyOn(CountersignClient.prototype, "reply").mockResolvedValue(undefined as never);
  const { page, draw } = await show(<Card approval={long("d1")} />);
  const disabled = (name: string) => (button(page, name) as HTMLButtonElement | undefined)?.disabled;
  expect(disabled("Approve")).toBe(true);
  await click(button(page, "Show all"));
  expect(disabled("Approve")).toBe(false);
  // Other arguments under the same key must be seen again.
  await draw(<Card approval={long("d2")} />);
  expect(disabled("Approve")).toBe(true);

  await draw(<Card approval={request({ reviewConfigs: [{ allowed_decisions: ["reject"] }] })} />);
  expect([button(page, "Approve"), button(page, "Edit")]).toEqual([undefined, undefined]);
  // For several calls the package's own card is used.
  await draw(<Card approval={request({ actions: [...request().actions, { ...request().actions[0]!, id: "c2" }] })} />);
  expect([page.querySelectorAll("fieldset [data-part=call], fieldset[data-part=call]").length, button(page, "Approve")]).toEqual([2, undefined]);

  await draw(<Card approval={request()} />);
  await click(button(page, "Edit"));
  await write(page.querySelector("textarea"), '{"n": 2}');
  expect(sessionStorage.length).toBe(1);
  await click(button(page, "Send the edited call"));
  expect(reply.mock.calls.map(([, sent]) => sent)).toMatchObject([{ decisions: [{ type: "edit", edited_action: { args: { n: 2 } }, digest: "d1" }] }]);
  expect(sessionStorage.length).toBe(0);
});
