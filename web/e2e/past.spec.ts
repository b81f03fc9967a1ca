/** The earlier points of a session, and going on from one in a new session. */
import { checkAccessible, expect, hasNoSidewaysScroll, oneOrder, openCard, test } from "./support/console.js";

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
  // All of what it says stands in the dialog.
  const cut = await dialog.evaluate((box) => [...box.querySelectorAll("p, span, h2, .past")].filter((e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1).map((e) => e.textContent));
  expect(cut).toEqual([]);
  await page.setViewportSize({ width: 1280, height: 800 });
  await dialog
    .getByRole("listitem")
    .filter({ hasText: "1 waiting" })
    .getByRole("button", { name: /Continue from here as a new session/ })
    .click();

  // Another session, with the same past, that waits under a key of its own.
  await expect(page).not.toHaveURL(original);
  await expect(dialog).toBeHidden();
  const again = page.locator(".card").getByRole("button", { name: "Approve", exact: true });
  await expect(again).toBeEnabled();
  await expect(page.getByText("Result:")).toHaveCount(0);
  await again.click();
  await expect(page.getByText("Result:")).toBeVisible();

  // The original is as it was.
  await page.goto(original);
  await expect(page.getByText("Result:")).toBeVisible();
});
