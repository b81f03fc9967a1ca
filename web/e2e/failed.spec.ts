/** Turns that have failed: what is pending stays, and they are tried again or given up. */
import type { Locator, Page } from "@playwright/test";
import { checkAccessible, expect, hasNoSidewaysScroll, resolved, send, test } from "./support/console.js";
import type { ServerOptions } from "./support/server.js";
import { placesOf } from "./support/words.js";

/** An order that an admin decides; a lookup beside it fails the turn. */
const failing: ServerOptions = {
  turns: [
    {
      text: "Here is the order.",
      calls: [
        { name: "execute_trade", args: '{"symbol":"VNM","quantity":100}' },
        { name: "lookup", args: '{"symbol":"VNM"}' },
      ],
    },
    { text: "Result: {{ last_tool_result }}" },
  ],
  approval: 'levels = ["admin"]',
  stopsLookup: true,
};

const end = (page: Page) => page.locator(".turn-end.failed");
const tool = (page: Page, name: string) => page.locator(".tool", { hasText: name });

/** Approve the lookup: the turn fails, and the order stays pending. */
async function fail(page: Page, url: string): Promise<Locator> {
  await page.goto(url);
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
  await send(page);
  const cards = page.locator(".card");
  await expect(cards).toHaveCount(2);
  await cards.filter({ hasText: "lookup" }).getByRole("button", { name: "Approve" }).click();
  await expect(end(page)).toContainText("The turn failed.");
  await expect(end(page)).toContainText("leak");
  await expect(cards).toHaveCount(1);
  return cards;
}

test("w2 s22: a request of a failed turn is approved, and runs once when the turn is tried again", async ({ page, context, serve }) => {
  const { url } = await serve(failing);
  const card = await fail(page, url);
  await expect(card).toContainText("takes effect when it is tried again");
  await expect(tool(page, "execute_trade")).toContainText("waiting for approval");
  await page.reload();
  await expect(card).toContainText("takes effect when it is tried again");
  const other = await context.newPage();
  await other.goto(page.url());

  await card.getByRole("button", { name: "Approve" }).focus();
  await page.keyboard.press("Enter");
  for (const tab of [page, other]) {
    await expect(tab.locator(".card")).toHaveCount(0);
    await expect(resolved(tab).filter({ hasText: "execute_trade" })).toContainText("Approved");
    await expect(end(tab)).toContainText("takes effect when it is tried again");
  }
  // The focus stays where the card was, and does not fall out of the page.
  await expect.poll(() => page.evaluate(() => document.activeElement !== document.body)).toBe(true);
  await expect(page.locator(".topbar")).toContainText("Failed");

  await end(page).getByRole("button", { name: "Try again" }).click();
  for (const tab of [page, other]) {
    await expect(tab.locator(".topbar")).toContainText("Finished");
    await expect(tab.locator(".markdown").last()).toContainText('"quantity":100');
    await expect(end(tab)).toHaveCount(0);
  }
  await page.reload();
  await expect(page.locator(".topbar")).toContainText("Finished");
  await page.locator(".group-row").first().click();
  await expect(page.locator(".tool")).toHaveCount(2);
  await expect(tool(page, "execute_trade")).toContainText("done");
  await expect(tool(page, "lookup")).toContainText("error");
  const calls = (await (await fetch(`${url}/v1/audit`)).text()).match(/"event":"finished"[^}]*"tool":"execute_trade"/g);
  expect(calls).toHaveLength(1);
});

test("w2 s22: a turn that is tried again asks on for what is pending", async ({ page, serve }) => {
  const { url } = await serve(failing);
  const card = await fail(page, url);
  await end(page).getByRole("button", { name: "Try again" }).click();
  await expect(page.locator(".topbar")).toContainText("Waiting for you");
  await expect(card).not.toContainText("takes effect");
  await card.getByRole("button", { name: "Reject" }).click();
  await card.getByRole("button", { name: "Reject" }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
  await page.locator(".group-row").first().click();
  await expect(tool(page, "execute_trade")).toContainText("rejected");
});

test("w2: a new message gives a failed turn up, and says so before it is sent", async ({ page, serve }) => {
  const { url } = await serve(failing);
  const card = await fail(page, url);
  await expect(page.getByText("Sending a message gives up the failed turn")).toBeVisible();
  await send(page, "Never mind");
  await expect(card).toHaveCount(0);
  await expect(page.locator(".topbar")).toContainText("Finished");
  await expect(resolved(page).filter({ hasText: "execute_trade" })).toContainText("Cancelled");
  await page.locator(".group-row").first().click();
  await expect(tool(page, "execute_trade")).not.toContainText("done");
});

test("w2: a failed turn is given up without a message", async ({ page, serve }) => {
  const { url } = await serve(failing);
  const card = await fail(page, url);
  await end(page).getByRole("button", { name: "Give up this turn" }).click();
  await expect(page.getByText("The turn was stopped.")).toBeVisible();
  await expect(card).toHaveCount(0);
  await expect(page.getByText("Sending a message gives up the failed turn")).toHaveCount(0);
});

test("s24: a turn that used up its model calls is allowed more", async ({ page, serve }) => {
  const { url } = await serve({ turns: [{ calls: [{ name: "lookup", args: "{}" }] }, { text: "Done." }], maxTurns: 1 });
  await page.goto(url);
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
  await send(page);
  await expect(end(page)).toContainText("limit of model calls");
  // Nothing is pending: the page only asks what to do next.
  await expect(end(page).getByRole("button", { name: "Give up this turn" })).toHaveCount(0);
  const field = end(page).getByLabel("More model calls");
  await expect(field).toHaveValue("1");
  const again = end(page).getByRole("button", { name: "Try again" });
  await field.fill("2");
  await expect(again).toBeDisabled();
  await field.fill("1");
  await field.press("Enter");
  await expect(page.locator(".topbar")).toContainText("Finished");
  await expect(page.locator(".markdown").last()).toHaveText("Done.");
});

test("w2: a model that fails again says so again", async ({ page, serve }) => {
  const { url } = await serve({ turns: [{ text: "Half of", error: "the model is down" }] });
  await page.goto(url);
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
  await send(page);
  await expect(end(page)).toContainText("the model is down");
  await expect(page.locator(".message.assistant")).toHaveCount(1);
  await end(page).getByRole("button", { name: "Try again" }).click();
  await expect(page.locator(".message.assistant")).toHaveCount(2);
  await expect(end(page)).toContainText("the model is down");
});

for (const [language, again] of [
  ["en", "Try again"],
  ["vi", "Thử lại"],
  ["zh", "重试"],
] as const) {
  for (const [, width, colorScheme] of placesOf(language)) {
    test.describe(`${language}, ${width}, ${colorScheme}`, () => {
      test.use({ colorScheme, ...(width < 800 && { viewport: { width, height: 844 }, hasTouch: true, isMobile: true }) });

      test("axe finds nothing in a failed turn, and nothing scrolls sideways", async ({ page, serve }) => {
        const { url } = await serve({ ...failing, maxTurns: 1 });
        await fail(page, url);
        await page.evaluate((l) => localStorage.setItem("countersign:language", l), language);
        await page.reload();
        await expect(end(page).getByRole("button", { name: again })).toBeVisible();
        await checkAccessible(page, "failed, with a request");
        await hasNoSidewaysScroll(page);
        await page.locator(".card [data-choice=approve]").click();
        await expect(page.locator(".card")).toHaveCount(0);
        await checkAccessible(page, "failed, decided");
        await end(page).getByRole("button", { name: again }).click();
        await expect(end(page).getByRole("spinbutton")).toHaveValue("1");
        await checkAccessible(page, "out of model calls");
        await hasNoSidewaysScroll(page);
      });
    });
  }
}
