/** What a phone has room for, and what it has no use for. */
import { expect, hasNoSidewaysScroll, oneOrder, openCard, send, test } from "./support/console.js";

test.use({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });

const orders = ["AAA", "BBB", "CCC"].map((symbol) => ({ name: "execute_trade", args: `{"symbol":"${symbol}","quantity":1}` }));

test("u1: a phone is told of no keys", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  const card = await openCard(page, url);
  await expect(card.getByRole("button", { name: "Approve" })).toBeVisible();
  await expect(card.locator(".keys")).toBeHidden();
});

for (const language of ["en", "vi", "zh"]) {
  test(`u1: several actions leave a phone room to read them, in ${language}`, async ({ page, serve }) => {
    const { url } = await serve({ turns: [{ text: "Three orders.", calls: orders }, { text: "Done." }] });
    await page.goto(url);
    await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
    await send(page);
    await page.evaluate((l) => localStorage.setItem("countersign:language", l), language);
    await page.reload();
    const foot = page.locator(".card-foot");
    await expect(foot.locator("button.primary")).toBeInViewport({ ratio: 1 });
    // One line of buttons, and the field with one line below it.
    const heights = await page.locator(".card-foot, .composer-dock").evaluateAll((all) => all.map((e) => e.clientHeight));
    expect(heights[0]).toBeLessThan(70);
    expect(heights[1]).toBeLessThan(125);
    await hasNoSidewaysScroll(page);
  });
}

test("u1: while the session list lies over the page, only the list can be reached", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  await openCard(page, url);
  const menu = page.getByRole("button", { name: "Open the session list" });
  await menu.tap();
  await expect(page.locator(".sidebar")).toHaveAttribute("data-open");
  await expect(page.locator("#main")).toHaveJSProperty("inert", true);
  await page.keyboard.press("Escape");
  await expect(page.locator("#main")).toHaveJSProperty("inert", false);
  await expect(menu).toBeFocused();
});
