/** What a person sees of a call that an agent makes for another agent. */
import { checkAccessible, expect, hasNoSidewaysScroll, openCard, order, test } from "./support/console.js";

test("s5 the card of a nested call says through whom it was asked, also on a phone", async ({ page, serve }) => {
  const asked = { name: "ask_helper", args: '{"input":"Buy 100 VNM"}' };
  const { url } = await serve({
    turns: [{ text: "I ask the helper.", calls: [asked] }, { text: "It says: {{ last_tool_result }}" }],
    helper: [{ calls: [{ name: "execute_trade", args: order }] }, { text: "Bought." }],
  });
  await page.setViewportSize({ width: 360, height: 740 });
  const card = await openCard(page, url);
  await expect(card.locator("[data-path]")).toHaveText("Asked through: trader → ask_helper → helper");
  await hasNoSidewaysScroll(page);
  await checkAccessible(page, "the card of a nested call");
  await card.getByRole("button", { name: "Approve" }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
  // What the agents said to one another is not said to the user.
  await expect(page.getByText("It says: Bought.")).toBeVisible();
});
