/** The inbox: all that waits, however much that is, the soonest deadline first. */
import { call, checkAccessible, expect, hasNoSidewaysScroll, order, test } from "./support/console.js";

/** Ask for an order in a session of its own, without a page. */
async function ask(url: string, session: string): Promise<void> {
  const response = await fetch(`${url}/v1/sessions/${session}/messages`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ content: `Order ${session}` }),
  });
  expect(response.status).toBe(200);
}

test("all that waits is counted and listed, the soonest deadline first", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(order)], timeout: 3000 });
  // The first asked is the first to be rejected by itself.
  await ask(url, "first");
  const rest = Array.from({ length: 219 }, (_, i) => `s${i}`);
  for (let at = 0; at < rest.length; at += 20) await Promise.all(rest.slice(at, at + 20).map((id) => ask(url, id)));

  await page.goto(url);
  await expect(page.locator(".sidebar .count [aria-hidden]")).toHaveText("220");
  await expect(page).toHaveTitle("(220) Countersign");
  await page.getByRole("button", { name: "Inbox" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("heading")).toHaveText("Waiting for a decision (220)");
  const rows = dialog.locator(".inbox-row");
  await expect(rows).toHaveCount(50);
  await expect(rows.first()).toContainText("Session first");
  await checkAccessible(page, "a long inbox");
  for (const shown of [100, 150, 200, 220]) {
    await dialog.getByRole("button", { name: "Show more" }).click();
    await expect(rows).toHaveCount(shown);
  }
  await expect(dialog.getByRole("button", { name: "Show more" })).toHaveCount(0);

  await rows.first().click();
  await expect(page).toHaveURL(/#\/s\/first$/);
  await page.locator(".card").getByRole("button", { name: "Approve", exact: true }).click();
  await expect(page.locator(".sidebar .count [aria-hidden]")).toHaveText("219");
});

test("beyond some hundreds the number says that there are more", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(order)], timeout: 3000 });
  const all = Array.from({ length: 510 }, (_, i) => `s${i}`);
  for (let at = 0; at < all.length; at += 30) await Promise.all(all.slice(at, at + 30).map((id) => ask(url, id)));
  await page.goto(url);
  await expect(page.locator(".sidebar .count [aria-hidden]")).toHaveText("500+");
  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator(".topbar").getByRole("button", { name: "Inbox. Waiting requests: 500+" }).click();
  const more = page.getByRole("dialog").getByRole("button", { name: "Show more" });
  for (let shown = 50; shown < 500; shown += 50) await more.click();
  await expect(page.getByText("These are the 500 nearest their deadline.")).toBeVisible();
  await expect(page.locator(".inbox-row")).toHaveCount(500);
  await hasNoSidewaysScroll(page);
});
