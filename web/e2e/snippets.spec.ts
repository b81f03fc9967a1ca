/** The React and parsing code of the documents, unchanged, on a page of another origin, against the server. */
import type { Page } from "@playwright/test";
import { ask, call, expect, goal, horizon, order, test } from "./support/console.js";
import { snippets } from "./snippets/sources.js";
import { servePage, type ServedPage } from "./support/page.js";
import type { Server } from "./support/server.js";

let site: ServedPage;
test.beforeAll(async () => void (site = await servePage("snippets", [snippets()])));
test.afterAll(() => site.stop());

async function open(page: Page, server: Server): Promise<void> {
  await page.goto(`${site.origin}/?server=${encodeURIComponent(server.url)}&session=s1`);
  await expect(page.getByRole("status")).toHaveText("connected");
  await page.getByRole("button", { name: "Start" }).click();
}

async function history(server: Server) {
  const response = await fetch(`${server.url}/v1/sessions/s1/history`);
  return ((await response.json()) as { messages: Record<string, unknown>[] }).messages;
}

test("u2: the modal approves and rejects", async ({ page, serve }) => {
  const trade = (symbol: string) => ({ id: symbol, name: "execute_trade", args: JSON.stringify({ symbol, quantity: 1 }) });
  const server = await serve({
    turns: [{ calls: [trade("VNM"), trade("FPT")] }, { calls: [trade("HPG")] }, { text: "Done." }],
    origins: [site.origin],
  });
  await open(page, server);
  const modal = page.locator(".modal");
  await expect(modal.getByRole("heading", { level: 4 })).toHaveText(["execute_trade", "execute_trade"]);
  await expect(modal.locator("pre").first()).toContainText('"symbol": "VNM"');
  await modal.getByRole("button", { name: "Từ chối" }).last().click();
  await modal.getByRole("button", { name: "Xác nhận" }).click();

  await expect(modal.locator("pre")).toHaveCount(1);
  await expect(modal.locator("pre")).toContainText('"symbol": "HPG"');
  await modal.getByRole("button", { name: "Xác nhận" }).click();
  await expect(page.getByRole("status")).toHaveText("completed");
  await expect(modal).toHaveCount(0);
  const results = (await history(server)).filter((m) => m.role === "tool").map((m) => [m.tool_call_id, m.status]);
  expect(Object.fromEntries(results)).toEqual({ VNM: "success", FPT: "rejected", HPG: "success" });
});

test("u2: the history's answered questions are rendered", async ({ page, serve }) => {
  const server = await serve({
    turns: [ask(goal, horizon), call(order), { text: "Done." }],
    origins: [site.origin],
  });
  await open(page, server);
  await expect(page.getByRole("status")).toHaveText("awaiting_input");
  await expect(page.locator(".modal")).toHaveCount(0);
  const shown = page.getByRole("region", { name: "History" });
  await page.getByRole("button", { name: "History" }).click();
  await expect(shown).toBeEmpty();

  const answered = await fetch(`${server.url}/v1/approvals/s1_1`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ answers: { [goal.question]: "Long-term growth" } }),
  });
  expect(answered.status).toBe(200);
  await page.locator(".modal").getByRole("button", { name: "Xác nhận" }).click();
  await expect(page.getByRole("status")).toHaveText("completed");
  await page.getByRole("button", { name: "History" }).click();
  await expect(shown.locator(".font-semibold")).toHaveText([goal.question, horizon.question]);
  await expect(shown.locator(".text-gray-500")).toHaveText(["Long-term growth", "[No preference]"]);
});
