/** Fifty tabs on one session. They take as much of the machine as they get, so no other browser test runs meanwhile. */
import { begin, expect, oneOrder, test } from "./support/console.js";
import { terminal } from "./support/server.js";

const TABS = 50;

test("u1 r7: fifty tabs on one session show its request, and its decision, at once", async ({ page, context, serve }) => {
  test.setTimeout(600_000);
  const { url } = await serve({ turns: oneOrder, timeout: 3000 });
  await begin(url, "s1");
  const tabs = [page];
  while (tabs.length < TABS) {
    const tab = await context.newPage();
    // A window shows one of its tabs. Without a window they all count as shown, and each would read its lists every second.
    await tab.addInitScript(() => {
      Object.defineProperty(document, "hidden", { value: true });
      Object.defineProperty(document, "visibilityState", { value: "hidden" });
    });
    tabs.push(tab);
  }
  // Some at a time: the machine has to start a page for each.
  for (let at = 0; at < TABS; at += 5) {
    await Promise.all(tabs.slice(at, at + 5).map((tab) => tab.goto(`${url}/#/s/s1`)));
    for (const tab of tabs.slice(at, at + 5)) await expect(tab.locator(".card")).toBeVisible({ timeout: 60_000 });
  }
  await terminal(url, "approvals", "approve", "s1_1");
  for (const tab of tabs) await expect(tab.locator(".markdown").last()).toContainText("9007199254740993", { timeout: 60_000 });
  for (const tab of tabs) await expect(tab.locator(".card")).toHaveCount(0, { timeout: 60_000 });
});
