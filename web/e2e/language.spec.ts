/** A page whose texts cannot be loaded. */
import { expect, oneOrder, test } from "./support/console.js";

test("u1: a page whose language cannot be loaded is in English, and one without any texts can be loaded again", async ({ page, serve, tolerate }) => {
  tolerate.push(/Failed to load resource|Failed to fetch dynamically imported module/);
  const { url } = await serve({ turns: oneOrder });
  await page.addInitScript(() => localStorage.setItem("countersign:language", "vi"));
  await page.route(/\/assets\/vi-[^/]*\.js$/, (route) => route.abort());
  await page.goto(url);
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();

  await page.route(/\/assets\/(en|zh)-[^/]*\.js$/, (route) => route.abort());
  await page.reload();
  const reload = page.getByRole("button", { name: /Reload/ });
  await expect(reload).toBeVisible();
  await page.unrouteAll();
  await reload.click();
  await expect(page.locator("html")).toHaveAttribute("lang", "vi");
});
