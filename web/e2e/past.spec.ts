/** The earlier points of a session, and continuing from one in a new session. */
import { begin, checkAccessible, expect, hasNoSidewaysScroll, oneOrder, openCard, send, signIn, tabOf, test } from "./support/console.js";
import { LANGUAGES, wordsOf } from "./support/words.js";

test("a session goes on from an earlier point in a new one, which asks again", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  const card = await openCard(page, url);
  await card.getByRole("button", { name: "Approve", exact: true }).click();
  await expect(page.getByText("Result:")).toBeVisible();
  const original = page.url();

  await page.getByRole("button", { name: "Earlier points" }).click();
  const dialog = page.getByRole("dialog", { name: "Earlier points of this session" });
  await expect(dialog.getByRole("listitem")).not.toHaveCount(0);
  await expect(dialog.getByText("1 waiting")).toBeVisible();
  await checkAccessible(page, "earlier points");
  await page.setViewportSize({ width: 360, height: 720 });
  await hasNoSidewaysScroll(page);
  // None of its text is cut off.
  const cut = await dialog.evaluate((box) => [...box.querySelectorAll("p, span, h2, .past")].filter((e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1).map((e) => e.textContent));
  expect(cut).toEqual([]);
  await page.setViewportSize({ width: 1280, height: 800 });
  await dialog
    .getByRole("listitem")
    .filter({ hasText: "1 waiting" })
    .getByRole("button", { name: /Continue from here as a new session/ })
    .click();

  // Another session, with the same past and its own pending request.
  await expect(page).not.toHaveURL(original);
  await expect(dialog).toBeHidden();
  const again = page.locator(".card").getByRole("button", { name: "Approve", exact: true });
  await expect(again).toBeEnabled();
  await expect(page.getByText("Result:")).toHaveCount(0);
  await again.click();
  await expect(page.getByText("Result:")).toBeVisible();

  // The original is unchanged.
  await page.goto(original);
  await expect(page.getByText("Result:")).toBeVisible();
});

const dialogOf = async (page: import("@playwright/test").Page) => {
  await page.getByRole("button", { name: "Earlier points" }).click();
  return page.getByRole("dialog", { name: "Earlier points of this session" });
};

test("g6: each point says what had happened there, and shows the conversation as it was", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  const card = await openCard(page, url);
  await card.getByRole("button", { name: "Reject", exact: true }).click();
  await card.getByLabel("Reason").fill("too dear");
  await card.getByRole("button", { name: "Reject", exact: true }).click();
  await expect(page.getByText("Result:")).toBeVisible();

  const dialog = await dialogOf(page);
  const points = dialog.locator(".past-point");
  const said = (what: string) => points.filter({ has: page.locator(".past-toggle", { hasText: what }) });
  await expect(said("You sent a message").locator(".past-excerpt")).toHaveText("Buy 100 VNM");
  await expect(said("The turn ended").locator(".past-excerpt")).toContainText("Result:");
  await expect(points.filter({ hasText: "1 waiting" }).first().locator(".past-excerpt")).toHaveText("execute_trade");
  await expect(said("Decided; by whom was not recorded").locator(".past-excerpt")).toContainText("too dear");

  // The point with the pending request shows nothing that came later.
  const waited = points.filter({ hasText: "1 waiting" }).first();
  await waited.locator(".past-toggle").click();
  const then = waited.getByRole("list", { name: "The conversation up to here" });
  await expect(then.locator("li")).toHaveText(["YouBuy 100 VNM", "AgentHere is the order.", /^execute_trade\{"symbol":"VNM"/, "Pendingexecute_trade"]);
  await checkAccessible(page, "an earlier point");
});

test("g6 u1: each point says who wrote or decided there, and only one's own is said to be one's own", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: oneOrder, people: { alice: ["user"], bob: ["admin"] }, approval: 'levels = ["admin"]' });
  await begin(url, "s1", "Buy 100 VNM", "alice");
  await signIn(page, "alice");
  await page.goto(`${url}/#/s/s1`);
  const bob = await tabOf(context, "bob", `${url}/#/s/s1`);
  await bob.locator(".card").getByRole("button", { name: "Approve", exact: true }).click();
  for (const [tab, headings, author] of [
    [page, { en: ["You sent a message", "bob decided"], vi: ["Bạn đã gửi tin nhắn", "bob đã quyết định"], zh: ["您发送了消息", "bob 作出了决定"] }, undefined],
    [bob, { en: ["alice sent a message", "You decided"], vi: ["alice đã gửi tin nhắn", "Bạn đã quyết định"], zh: ["alice 发送了消息", "您作出了决定"] }, "alice"],
  ] as const) {
    await expect(tab.getByText("Result:")).toBeVisible();
    for (const language of LANGUAGES) {
      const t = wordsOf(language);
      await tab.evaluate((l) => localStorage.setItem("countersign:language", l), language);
      await tab.setViewportSize({ width: 1280, height: 844 });
      await tab.reload();
      await tab.locator(".past-open").click();
      const said = (what: string) => tab.locator(".past-point").filter({ has: tab.locator(".past-toggle", { hasText: new RegExp(`^${what}$`) }) });
      for (const heading of headings[language]) await expect(said(heading)).toHaveCount(1);
      // Also in the conversation that a point shows, where the decision is that of the person who made it.
      const decided = said(headings[language][1]);
      await decided.locator(".past-toggle").click();
      await expect(decided.locator(".past-items li").first().locator(".past-by")).toHaveText(author ?? t("chat.you"));
      await expect(decided.locator(".past-items li[data-kind=asked]")).toContainText(t("resolved.by", { name: "bob" }));
      for (const width of [1280, 390]) {
        await tab.setViewportSize({ width, height: 844 });
        await hasNoSidewaysScroll(tab);
        if (process.env.LOOK) await tab.screenshot({ path: `${process.env.LOOK}/past-who-${author ?? "own"}-${language}-${width}.png` });
      }
    }
  }
});

test("g6: a message is another one before the session goes on from its point", async ({ page, serve }) => {
  const { url } = await serve({ turns: [{ text: "You said: {{ last_user }}" }], atEnd: "repeat" });
  await page.goto(url);
  await send(page, "Buy 100 VNM");
  await expect(page.getByText("You said: Buy 100 VNM")).toBeVisible();
  const original = page.url();
  const dialog = await dialogOf(page);
  const point = dialog.locator(".past-point").filter({ hasText: "You sent a message" });
  await point.locator(".past-toggle").click();
  const field = point.getByLabel("Another message in its place");
  await expect(field).toHaveValue("Buy 100 VNM");
  const go = point.getByRole("button", { name: "Continue with this message as a new session" });
  await expect(go).toBeDisabled();
  await field.fill("Sell 5 FPT");
  await go.click();
  await expect(page).not.toHaveURL(original);
  await expect(page.getByText("You said: Sell 5 FPT")).toBeVisible();
  await expect(page.locator(".message.user")).toHaveText(["Sell 5 FPT"]);
  await page.goto(original);
  await expect(page.getByText("You said: Buy 100 VNM")).toBeVisible();
});

for (const [locale, width, colorScheme] of [["en-US", 1280, "light"], ["vi-VN", 390, "dark"], ["zh-CN", 390, "light"]] as const) {
  test.describe(`${locale}, ${width}`, () => {
    test.use({ locale, colorScheme, viewport: { width, height: 844 } });
    test("g6: a call is another one before the session goes on, and is asked about as that", async ({ page, serve }) => {
      const { url } = await serve({ turns: oneOrder });
      await page.goto(url);
      await page.locator(".composer textarea").fill("Buy");
      await page.locator(".composer textarea").press("Enter");
      await expect(page.locator(".card .arg").first()).toBeVisible();
      const original = page.url();
      await page.locator(".past-open").click();
      const point = page.locator(".past-point").filter({ has: page.locator(".past-items, .session-meta") }).first();
      await point.locator(".past-toggle").click();
      await point.locator(".past-edit.link").click();
      await point.getByLabel("quantity").fill("2000");
      await expect(point.locator(".field-error")).toHaveCount(1);
      await point.getByLabel("quantity").fill("7");
      await hasNoSidewaysScroll(page);
      await checkAccessible(page, "editing a call of the past");
      if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/past-${locale}-${width}.png` });
      await point.locator(".past-edit > .button").click();
      await expect(page).not.toHaveURL(original);
      await expect(page.locator(".card .arg").filter({ hasText: "quantity" })).toContainText("7");
      await page.goto(original);
      await expect(page.locator(".card .arg").filter({ hasText: "quantity" })).toContainText("100");
    });
  });
}
