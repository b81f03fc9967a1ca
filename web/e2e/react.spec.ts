/** The hooks and cards of @countersign/react, on a page of another origin, against the server. */
import type { Page } from "@playwright/test";
import { ask, call, checkAccessible, expect, goal, horizon, oneOrder, order, sectors, test } from "./support/console.js";
import { servePage, type ServedPage } from "./support/page.js";
import type { Server } from "./support/server.js";

let site: ServedPage;
test.beforeAll(async () => void (site = await servePage("react")));
test.afterAll(() => site.stop());

const cardOf = (page: Page) => page.locator('main [data-countersign="card"]');

async function open(page: Page, server: Server, { origin } = site): Promise<void> {
  await page.goto(`${origin}/?server=${encodeURIComponent(server.url)}`);
  await expect(page.getByTestId("state")).toContainText("open");
}

test("u2: a card shows what would run, and an edit of it runs with every digit", async ({ page, serve }) => {
  const server = await serve({ turns: oneOrder, origins: [site.origin] });
  await open(page, server);
  await page.getByRole("button", { name: "Start" }).click();
  const card = cardOf(page);
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
  const card = cardOf(page);
  await card.getByRole("group", { name: goal.question }).getByLabel("Long-term growth").check();
  await checkAccessible(page, "a question");
  await card.getByRole("button", { name: "Next" }).click();
  // What was chosen is there after a reload.
  await page.reload();
  await card.getByRole("button", { name: "Back" }).click();
  await expect(card.getByLabel("Long-term growth")).toBeChecked();
  await card.getByRole("button", { name: "Next" }).click();
  await card.getByRole("button", { name: "Review answers" }).click();
  await expect(card.getByRole("alert").filter({ hasText: "Choose an answer" })).toBeVisible();
  await card.getByRole("button", { name: "Skip" }).click();
  await checkAccessible(page, "all answers");
  await card.getByRole("button", { name: "Send answers" }).click();
  await expect(page.getByTestId("state")).toContainText("completed");
  await expect(page.getByRole("region", { name: "History" }).locator("dt, dd")).toHaveText([
    `${goal.header} ${goal.question}`,
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
  await cardOf(page).getByLabel("Reject").check();
  const body = JSON.stringify({ decisions: [{ type: "approve" }] });
  await fetch(`${server.url}/v1/approvals/s1_1`, { method: "POST", headers: { "content-type": "application/json" }, body });
  await expect(page.locator('main [data-countersign="resolved"]')).toContainText("Approved");
  await expect.poll(listed).toEqual(["a_1", "b_1"]);
});

test.describe("with styles", () => {
  let styled: ServedPage;
  test.beforeAll(async () => void (styled = await servePage("react-styled")));
  test.afterAll(() => styled.stop());

  for (const colorScheme of ["light", "dark"] as const) {
    for (const width of [1280, 360]) {
      test(`u2: the styles that come along are legible and fit, ${colorScheme}, ${width}`, async ({ page, serve }) => {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 800 });
        const own = { question: "What is it for?", options: [{ label: "A house" }, { label: "Something else", input: true }] };
        const server = await serve({ turns: [call(order), ask(goal, sectors, own), { text: "Done." }], origins: [styled.origin] });
        await open(page, server, styled);
        await page.getByRole("button", { name: "Start" }).click();
        const card = cardOf(page);
        const press = (name: string) => card.getByRole("button", { name, exact: true }).click();
        await expect(card).toHaveCSS("border-top-width", "3px");
        await expect(card.getByRole("button", { name: "Send" })).not.toHaveCSS("background-color", "rgba(0, 0, 0, 0)");
        const look = async (name: string) => {
          expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(0);
          await checkAccessible(page, name);
          if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/react-${name}-${colorScheme}-${width}.png`, fullPage: true });
        };
        await look("call");
        await card.getByRole("radio", { name: "Edit" }).check();
        await card.getByLabel("Arguments, as JSON").fill("{");
        await press("Send");
        await look("edit");
        await card.getByRole("radio", { name: "Approve" }).check();
        await press("Send");
        await card.getByLabel("Long-term growth").check();
        await look("question");
        await press("Next");
        await press("Next");
        await look("problem");
        await card.getByLabel("Steel").check();
        await card.getByLabel("Banks").check();
        await press("Next");
        await card.getByRole("textbox").fill("A boat");
        await look("own-answer");
        await press("Review answers");
        await look("review");
        await press("Do not answer");
        await look("decline");
        await press("Back");
        await press("Send answers");
        await expect(page.getByTestId("state")).toContainText("completed");
        await expect(page.locator('main [data-countersign="resolved"]').first()).toBeVisible();
        await look("over");
      });
    }
  }
});
