/** The graph beside the chat: it shows the session's position, and follows it. */
import type { Page } from "@playwright/test";
import {
  begin,
  call,
  checkAccessible,
  expect,
  hasNoSidewaysScroll,
  oneOrder,
  openCard,
  order,
  send,
  test,
} from "./support/console.js";
import { EVERYWHERE, speak } from "./support/words.js";

const panel = (page: Page) => page.getByRole("complementary", { name: "Graph" });
const picture = (page: Page) => panel(page).getByRole("img");
const node = (page: Page, id: string) => panel(page).locator(`[data-node="${id}"]`);
const show = (page: Page) => page.getByRole("button", { name: "Graph", exact: true }).click();

test("it is shown on demand, marks what waits, and follows the turn to its end", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  const card = await openCard(page, url);
  await expect(panel(page)).toHaveCount(0);
  await show(page);
  await expect(node(page, "approval")).toHaveAttribute("data-state", "waiting");
  await expect(panel(page).locator("[data-state]")).toHaveCount(1);
  await expect(panel(page)).toContainText("Now at: approval (1 waiting for people).");
  await expect(picture(page)).toHaveAccessibleName(/Graph of the agent trader\. Now at: approval/);
  await expect(panel(page).locator(".graph-edge[data-conditional]")).toHaveCount(9);
  await expect(panel(page)).toContainText("all are rejected");

  await card.getByRole("button", { name: "Approve" }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
  await expect(node(page, "END")).toHaveAttribute("data-state", "here");
  await expect(node(page, "approval")).not.toHaveAttribute("data-state");
  await expect(picture(page)).toHaveAccessibleName(/Now at: END\./);
});

test("it moves while the agent works", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(order), { text: "Done.", delay_ms: 60_000 }] });
  const card = await openCard(page, url);
  await show(page);
  await expect(node(page, "approval")).toHaveAttribute("data-state", "waiting");
  await card.getByRole("button", { name: "Approve" }).click();
  await expect(node(page, "agent")).toHaveAttribute("data-state", "running");
  await page.getByRole("button", { name: "Stop" }).click();
  await expect(node(page, "END")).toHaveAttribute("data-state", "here");
});

test("several that wait are counted, and at rest nothing is asked for", async ({ page, serve }) => {
  const calls = ["A", "B", "C"].map((s) => ({ name: "execute_trade", args: `{"symbol":"${s}","quantity":1}` }));
  const { url } = await serve({ turns: [{ calls }, { text: "Done." }] });
  const asked: string[] = [];
  page.on("request", (r) => r.url().endsWith("/graph") && asked.push(r.url()));
  await page.goto(url);
  await send(page);
  await expect(page.locator(".card")).toBeVisible();
  await expect(page.locator(".topbar")).toContainText("Waiting for you");
  expect(asked).toEqual([]);
  await show(page);
  await expect(node(page, "approval").locator(".graph-count")).toHaveText("3");
  const before = asked.length;
  // Two rounds of what the page asks for again and again.
  for (let i = 0; i < 2; i++) await page.waitForResponse((r) => r.url().includes("/v1/sessions") && !r.url().endsWith("/graph"));
  expect(asked).toHaveLength(before);
});

test("it stays shown, can be made larger, and goes away with Escape", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  await openCard(page, url);
  await show(page);
  await page.reload();
  await expect(node(page, "approval")).toHaveAttribute("data-state", "waiting");
  const width = async () => (await picture(page).boundingBox())!.width;
  const fit = await width();
  for (let i = 0; i < 4; i++) await panel(page).getByRole("button", { name: "Larger" }).click();
  expect(await width()).toBeGreaterThan(fit * 2);
  await hasNoSidewaysScroll(page);
  await panel(page).getByRole("button", { name: "Fit" }).click();
  expect(await width()).toBeCloseTo(fit, 0);
  await page.keyboard.press("Escape");
  await expect(panel(page)).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Graph", exact: true })).toBeFocused();
});

for (const [language, width, colorScheme] of EVERYWHERE) {
  test.describe(`${language}, ${width}, ${colorScheme}`, () => {
    test.use({ colorScheme, viewport: { width, height: 844 } });
    test("axe finds nothing, and nothing scrolls sideways", async ({ page, serve }) => {
      const t = await speak(page, language);
      const { url } = await serve({ turns: oneOrder });
      await begin(url, "s1");
      await page.goto(`${url}/#/s/s1`);
      const card = page.locator(".card");
      const shown = page.getByRole("complementary", { name: t("graph.heading") });
      const open = () => page.getByRole("button", { name: t("graph.show"), exact: true }).click();
      const at = (id: string) => shown.locator(`[data-node="${id}"]`);
      await expect(card.getByRole("button", { name: t("decide.approve"), exact: true })).toBeEnabled();
      await open();
      await expect(at("approval")).toHaveAttribute("data-state", "waiting");
      await checkAccessible(page, "waiting");
      await hasNoSidewaysScroll(page);
      if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/graph-${language}-${width}.png` });
      await shown.getByRole("button", { name: t("graph.hide") }).click();
      await card.getByRole("button", { name: t("decide.approve"), exact: true }).click();
      await expect(page.locator(".topbar")).toContainText(t("status.completed"));
      await open();
      await expect(at("END")).toHaveAttribute("data-state", "here");
      await checkAccessible(page, "finished");
      if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/graph-${language}-${width}-end.png` });
    });
  });
}
