/** The hooks and cards of @countersign/react, on a page of another origin, against the server. */
import type { Page } from "@playwright/test";
import { ask, call, checkAccessible, expect, goal, horizon, oneOrder, order, test } from "./support/console.js";
import { servePage, type ServedPage } from "./support/page.js";
import type { Server } from "./support/server.js";

let site: ServedPage;
test.beforeAll(async () => void (site = await servePage("react")));
test.afterAll(() => site.stop());

async function open(page: Page, server: Server): Promise<void> {
  await page.goto(`${site.origin}/?server=${encodeURIComponent(server.url)}`);
  await expect(page.getByTestId("state")).toContainText("open");
}

test("u2: a card shows what would run, and an edit of it runs with every digit", async ({ page, serve }) => {
  const server = await serve({ turns: oneOrder, origins: [site.origin] });
  await open(page, server);
  await page.getByRole("button", { name: "Start" }).click();
  const card = page.locator("main form");
  await expect(card.locator('[data-part="shown"]')).toContainText("9007199254740993");
  await expect(page.getByRole("complementary", { name: "Inbox" }).getByRole("listitem")).toHaveText(["s1_1"]);
  await checkAccessible(page, "a card");

  // By the keyboard alone: the choices are radio buttons, one of them is the edit.
  await card.getByRole("radio", { name: "Approve" }).focus();
  while (!(await card.getByRole("radio", { name: "Edit" }).isChecked())) await page.keyboard.press("ArrowDown");
  const field = card.getByLabel("Arguments, as JSON");
  await field.fill((await field.inputValue()).replace("100", "25"));
  await checkAccessible(page, "an edit");
  await card.getByRole("button", { name: "Send" }).press("Enter");

  await expect(page.getByTestId("state")).toContainText("completed");
  const over = page.locator('[data-countersign="resolved"]');
  await expect(over).toContainText("Approved with other arguments");
  for (const digits of ["25", "82000.10", "9007199254740993"]) await expect(over).toContainText(digits);
  await expect(page.getByRole("region", { name: "History" })).toContainText("9007199254740993");
  await expect(page.getByRole("complementary", { name: "Inbox" }).getByRole("listitem")).toHaveCount(0);
});

test("u2: questions are answered, and the history shows the answers", async ({ page, serve }) => {
  const server = await serve({ turns: [ask(goal, horizon), { text: "Done." }], origins: [site.origin] });
  await open(page, server);
  await page.getByRole("button", { name: "Start" }).click();
  const card = page.locator("main form");
  await card.getByRole("group", { name: goal.question }).getByLabel("Long-term growth").check();
  await card.getByRole("button", { name: "Send" }).click();
  await expect(card.getByRole("alert")).toContainText(horizon.question);
  await card.getByRole("group", { name: horizon.question }).getByLabel("No preference").check();
  await checkAccessible(page, "questions");
  await card.getByRole("button", { name: "Send" }).click();
  await expect(page.getByTestId("state")).toContainText("completed");
  await expect(page.getByRole("region", { name: "History" }).locator("dt, dd")).toHaveText([
    goal.question,
    "Long-term growth",
    horizon.question,
    "No preference",
  ]);
});

test("u2: the inbox has page after page, and what somebody else decided takes the place of the card", async ({ page, serve }) => {
  const server = await serve({ turns: [call(order), { text: "Done." }], origins: [site.origin] });
  for (const id of ["a", "b"]) {
    const body = JSON.stringify({ content: "Buy" });
    await fetch(`${server.url}/v1/sessions/${id}/messages`, { method: "POST", headers: { "content-type": "application/json" }, body });
  }
  await open(page, server);
  await page.getByRole("button", { name: "Start" }).click();
  const inbox = page.getByRole("complementary", { name: "Inbox" });
  const listed = async () => (await inbox.getByRole("listitem").allTextContents()).sort();
  await expect.poll(async () => (await listed()).length).toBe(2);
  await inbox.getByRole("button", { name: "More" }).click();
  await expect.poll(listed).toEqual(["a_1", "b_1", "s1_1"]);

  // Somebody else is first, in the middle of it.
  await page.locator("main form").getByLabel("Reject").check();
  const body = JSON.stringify({ decisions: [{ type: "approve" }] });
  await fetch(`${server.url}/v1/approvals/s1_1`, { method: "POST", headers: { "content-type": "application/json" }, body });
  await expect(page.locator('main [data-countersign="resolved"]')).toContainText("Approved");
  await expect.poll(listed).toEqual(["a_1", "b_1"]);
});
