/** Questions of an agent: answering them, declining them, and what the conversation shows afterwards. */
import { ask, expect, goal, horizon, openQuestion, resolved, sectors, send, test } from "./support/console.js";
import type { Page } from "@playwright/test";
import type { Turn } from "./support/server.js";

const asking = (...questions: Parameters<typeof ask>): Turn[] => [ask(...questions), { text: "Noted: {{ last_tool_result }}" }];
const answers = (page: Page) => resolved(page).locator("dd");
const reply = (page: Page) => page.locator(".markdown").last();

test("one choice of several", async ({ page, serve }) => {
  const { url } = await serve({ turns: asking(goal) });
  const card = await openQuestion(page, url);
  await expect(card.getByRole("heading", { level: 2 })).toHaveText("The agent has a question");
  await expect(card.getByRole("group", { name: goal.question })).toContainText("Shares that pay every year");
  await expect(card.getByRole("timer")).toContainText("left");
  await expect(page.getByText("Answer the question above to continue.")).toBeVisible();
  // The server offers an answer in one's own words where the model did not.
  await expect(card.getByRole("radio")).toHaveCount(3);

  await card.getByRole("radio", { name: "Long-term growth" }).check();
  await card.getByRole("radio", { name: "Steady dividends (Recommended)" }).check();
  await card.getByRole("button", { name: "Send answer" }).click();
  await expect(resolved(page)).toContainText("Answered");
  await expect(resolved(page).locator("dt")).toContainText(goal.question);
  await expect(answers(page)).toHaveText(["Steady dividends (Recommended)"]);
  await expect(reply(page)).toContainText("Steady dividends (Recommended)");
  await expect(page.locator(".card, .tool")).toHaveCount(0);
});

test("several choices at once", async ({ page, serve }) => {
  const { url } = await serve({ turns: asking(sectors) });
  const card = await openQuestion(page, url);
  await expect(card.getByText("Choose one or more.")).toBeVisible();
  for (const name of ["Technology", "Banks", "Steel"]) await card.getByRole("checkbox", { name }).check();
  await card.getByRole("checkbox", { name: "Technology" }).uncheck();
  await card.getByRole("button", { name: "Send answer" }).click();
  await expect(answers(page)).toHaveText(["Banks, Steel"]);
  await expect(reply(page)).toContainText("Banks, Steel");
});

test("an answer in one's own words", async ({ page, serve }) => {
  const { url } = await serve({ turns: asking(horizon) });
  const card = await openQuestion(page, url);
  const field = card.getByRole("textbox");
  await card.getByRole("radio", { name: "Other" }).check();
  await expect(field).toBeFocused();
  await card.getByRole("button", { name: "Send answer" }).click();
  await expect(card.getByRole("alert")).toContainText("Write your answer");
  // Typing selects the option.
  await card.getByRole("radio", { name: "1-3 years" }).check();
  await field.fill("Until my daughter is 18");
  await expect(card.getByRole("radio", { name: "Other" })).toBeChecked();
  await field.press("Enter");
  await expect(answers(page)).toHaveText(["Until my daughter is 18"]);
  await expect(reply(page)).toContainText("Until my daughter is 18");
});

test("steps, a skipped question, and a look over the answers before they are sent", async ({ page, serve }) => {
  const { url } = await serve({ turns: asking(goal, horizon, sectors) });
  const card = await openQuestion(page, url);
  await expect(card.getByRole("heading", { level: 2 })).toHaveText("The agent has 3 questions");
  await expect(card.getByText("1 / 3")).toBeVisible();
  await expect(card.getByRole("button", { name: "Back" })).toHaveCount(0);
  await card.getByRole("button", { name: "Next" }).click();
  await expect(card.getByRole("alert")).toContainText("Choose an answer, or skip this question.");
  await card.getByRole("radio", { name: "Long-term growth" }).check();
  await card.getByRole("button", { name: "Next" }).click();
  await expect(card.getByText("2 / 3")).toBeVisible();
  await card.getByRole("button", { name: "Back" }).click();
  await expect(card.getByRole("radio", { name: "Long-term growth" })).toBeChecked();
  await card.getByRole("button", { name: "Next" }).click();
  await card.getByRole("button", { name: "Skip" }).click();
  await card.getByRole("checkbox", { name: "Banks" }).check();
  await card.getByRole("button", { name: "Review answers" }).click();

  await expect(card.getByRole("heading", { name: "Your answers" })).toBeFocused();
  await expect(card.locator("dd:not(.answer-after)")).toHaveText(["Long-term growth", "No preference", "Banks"]);
  await card.getByRole("button", { name: `Change the answer to: ${goal.question}` }).click();
  await card.getByRole("radio", { name: "Steady dividends (Recommended)" }).check();
  // Back where one came from, not through all the others.
  await card.getByRole("button", { name: "Review answers" }).click();
  await card.getByRole("button", { name: "Send answers" }).click();
  await expect(answers(page)).toHaveText(["Steady dividends (Recommended)", "No preference", "Banks"]);
  await expect(reply(page)).toContainText("[No preference]");
});

test("the keyboard is enough", async ({ page, serve }) => {
  const { url } = await serve({ turns: asking(goal, horizon) });
  const card = await openQuestion(page, url);
  await page.getByRole("button", { name: "Go to the request" }).press("Enter");
  await expect(card).toBeFocused();
  // Letters decide on approvals, not here.
  await page.keyboard.press("r");
  await page.keyboard.press("a");
  await page.keyboard.press("Tab");
  await expect(card.getByRole("radio").first()).toBeFocused();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  // Walking past the field does not catch the focus.
  await expect(card.getByRole("radio", { name: "Other" })).toBeFocused();
  await page.keyboard.type("Both");
  await expect(card.getByRole("textbox")).toHaveValue("Both");
  await page.keyboard.press("Enter");
  await expect(card.getByRole("group", { name: horizon.question }).locator("legend")).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(card.getByRole("alert")).toBeVisible();
  await expect(card.getByRole("radio").first()).toBeFocused();
  await page.keyboard.press("Space");
  await page.keyboard.press("Enter");
  await expect(card.getByRole("heading", { name: "Your answers" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(answers(page)).toHaveText(["Both", "Over 3 years"]);
  await expect(resolved(page)).toBeFocused();
});

test("declining, with a word to the agent", async ({ page, serve }) => {
  const { url } = await serve({ turns: asking(goal) });
  const card = await openQuestion(page, url);
  await card.getByRole("button", { name: "Do not answer" }).click();
  await expect(card.getByLabel("Reason")).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(card.getByRole("radio").first()).toBeVisible();
  await card.getByRole("button", { name: "Do not answer" }).click();
  await card.getByLabel("Reason").fill("Decide for yourself");
  await card.getByRole("button", { name: "Do not answer" }).click();
  await expect(resolved(page)).toContainText("Declined");
  await expect(resolved(page)).toContainText(goal.question);
  await expect(answers(page)).toHaveCount(0);
  await expect(reply(page)).toContainText("Decide for yourself");
});

test("nobody answers", async ({ page, serve }) => {
  const { url } = await serve({ turns: asking(goal), questionTimeout: 20 });
  const card = await openQuestion(page, url);
  await expect(card.getByText("If nobody answers in time")).toBeVisible();
  await expect(resolved(page)).toContainText("Nobody answered in time");
  await expect(page.locator(".topbar")).toContainText("Finished");
});

test("stop cancels the question", async ({ page, serve }) => {
  const { url } = await serve({ turns: asking(goal) });
  await openQuestion(page, url);
  await page.getByRole("button", { name: "Stop" }).click();
  await expect(resolved(page)).toContainText("Cancelled");
  await expect(page.getByText("The turn was stopped.")).toBeVisible();
});

test("a reload keeps the step and what was entered", async ({ page, serve }) => {
  const { url } = await serve({ turns: asking(goal, horizon, sectors) });
  const card = await openQuestion(page, url);
  await card.getByRole("button", { name: "Skip" }).click();
  await card.getByRole("textbox").fill("Seven years");
  await page.reload();
  await expect(card.getByText("2 / 3")).toBeVisible();
  await expect(card.getByRole("textbox")).toHaveValue("Seven years");
  await expect(card.getByRole("radio", { name: "Other" })).toBeChecked();
  await card.getByRole("button", { name: "Next" }).click();
  await card.getByRole("button", { name: "Skip" }).click();
  await card.getByRole("button", { name: "Send answers" }).click();
  await expect(answers(page)).toHaveText(["No preference", "Seven years", "No preference"]);
  const text = () => page.locator(".chat").innerText();
  await expect(page.locator(".topbar")).toContainText("Finished");
  // The page asks for the time of the answer once it is resolved.
  await expect(page.locator(".chat")).toContainText("Answered · now");
  const before = await text();
  await page.reload();
  await expect.poll(text).toBe(before);
});

test("an answer in one tab closes the card in the other", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: asking(goal) });
  const card = await openQuestion(page, url);
  const other = await context.newPage();
  await other.goto(page.url());
  await expect(other.locator(".card")).toBeVisible();
  await card.getByRole("radio", { name: "Long-term growth" }).check();
  await card.getByRole("button", { name: "Send answer" }).click();
  await expect(answers(other)).toHaveText(["Long-term growth"]);
  await expect(other.locator(".card")).toHaveCount(0);
});

test("two tabs answer at the same moment: one answer counts, and who was late is told", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: asking(goal) });
  const card = await openQuestion(page, url);
  const other = await context.newPage();
  await other.goto(page.url());
  await card.getByRole("radio", { name: "Long-term growth" }).check();
  await other.getByRole("radio", { name: "Steady dividends" }).check();
  // Straight at the buttons: a real pointer takes so long that the second one would find no card.
  const press = (tab: Page) => tab.evaluate(() => document.querySelector<HTMLElement>(".card [type=submit]")?.click());
  await Promise.all([press(page), press(other)]);
  for (const tab of [page, other]) await expect(answers(tab)).toHaveCount(1);
  const [mine, theirs] = [await answers(page).innerText(), await answers(other).innerText()];
  expect(mine).toBe(theirs);
  const late = mine.startsWith("Long") ? other : page;
  // The server refuses the late one, unless the news was there before the press; then there may be no card to press on.
  const notice = late.locator(".late");
  const told = [`already resolved: Answered, “${mine}”`, "resolved before you sent your reply"];
  if ((await notice.count()) > 0) {
    await expect.poll(async () => {
      const said = await notice.innerText();
      return told.some((text) => said.includes(text));
    }).toBe(true);
  }
});

test("the inbox shows what is asked, and leads to the answer", async ({ page, serve }) => {
  const { url } = await serve({ turns: asking(goal, horizon) });
  await openQuestion(page, url);
  await page.getByRole("link", { name: "New session" }).click();
  await page.getByRole("link", { name: "Inbox" }).click();
  const row = page.locator(".inbox-row");
  await expect(row).toContainText("The agent has 2 questions");
  await expect(row).toContainText(goal.question);
  await row.getByRole("link").click();
  await expect(page.locator(".card")).toBeFocused();
  await page.getByRole("radio").first().check();
});

test("asked twice: two rounds, each with its own steps and answers", async ({ page, serve }) => {
  const todos = (content: string) => ({ name: "write_todos", args: `{"todos":[{"content":"${content}","status":"in_progress"}]}` });
  const { url } = await serve({
    turns: [
      { thinking: "First things first.", calls: [todos("Ask for the goal")] },
      ask(goal),
      { thinking: "Now the rest.", calls: [todos("Ask for how long")] },
      ask(horizon),
      { text: "Thank you." },
    ],
  });
  const card = await openQuestion(page, url);
  await card.getByRole("radio", { name: "Long-term growth" }).check();
  await card.getByRole("button", { name: "Send answer" }).click();
  await expect(card.getByRole("group", { name: horizon.question })).toBeVisible();
  await card.getByRole("button", { name: "Skip" }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
  const order = page.locator(".message.assistant > *");
  await expect(order).toHaveCount(5);
  await expect(order.nth(1).locator("dd")).toHaveText(["Long-term growth"]);
  await expect(order.nth(3).locator("dd")).toHaveText(["No preference"]);
  await expect(order.nth(4)).toContainText("Thank you.");
  await expect(page.locator(".group .resolved")).toHaveCount(0);
  await send(page, "Once more");
  await expect(page.locator(".message.user")).toHaveCount(2);
});
