/** What a person sees of a call that an agent makes for another agent. */
import { ask, checkAccessible, expect, goal, hasNoSidewaysScroll, openCard, openQuestion, order, test } from "./support/console.js";

test("s5 the card of a nested call says through whom it was asked, also on a phone", async ({ page, serve }) => {
  const asked = { name: "ask_helper", args: '{"input":"Buy 100 VNM"}' };
  const { url } = await serve({
    turns: [{ text: "I ask the helper.", calls: [asked] }, { text: "It says: {{ last_tool_result }}" }],
    helper: [{ calls: [{ name: "execute_trade", args: order }] }, { text: "Bought." }],
  });
  await page.setViewportSize({ width: 360, height: 740 });
  const card = await openCard(page, url);
  await expect(card.locator("[data-path]")).toHaveText("Called through: trader → ask_helper → helper");
  await hasNoSidewaysScroll(page);
  await checkAccessible(page, "the card of a nested call");
  await card.getByRole("button", { name: "Approve" }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
  // The agents' messages to one another are not shown to the user.
  await expect(page.getByText("It says: Bought.")).toBeVisible();
});

test("s5 the question of a nested agent says who asks, and through whom", async ({ page, serve }) => {
  const asked = { name: "ask_helper", args: '{"input":"Plan it"}' };
  const { url } = await serve({
    turns: [{ calls: [asked] }, { text: "It says: {{ last_tool_result }}" }],
    helper: [ask(goal), { text: "Planned." }],
  });
  await page.setViewportSize({ width: 360, height: 740 });
  const card = await openQuestion(page, url);
  await expect(card.getByRole("heading", { level: 2 })).toHaveText("“helper” has a question");
  await expect(card.locator("[data-path]")).toHaveText("Called through: trader → ask_helper → helper");
  await hasNoSidewaysScroll(page);
  await checkAccessible(page, "the question of a nested agent");
  await card.getByRole("button", { name: "Skip" }).click();
});
