/** Double clicks: the second press is meant for what was there before, and decides, stops or revokes nothing else. */
import type { Locator, Page } from "@playwright/test";
import { begin, call, expect, oneOrder, openCard, order, resolved, test } from "./support/console.js";
import { servePage } from "./support/page.js";

/**
 * Presses a button, and then, the moment another element matches `next`, whatever takes a press where that is: at no
 * other moment is more of the page new.
 */
async function pressTwice(page: Page, button: Locator, next: string): Promise<void> {
  type Pressing = Window & { second?: Promise<void> };
  await button.evaluate((pressed, selector) => {
    (window as Pressing).second = new Promise((resolve) => {
      const observer = new MutationObserver(() => {
        const other = document.querySelector(selector);
        if (!other || other === pressed) return;
        observer.disconnect();
        const { left, top, width, height } = other.getBoundingClientRect();
        document.elementFromPoint(left + width / 2, top + height / 2)?.closest("button")?.click();
        resolve();
      });
      observer.observe(document.body, { subtree: true, childList: true, attributes: true });
    });
  }, next);
  await button.click();
  await page.evaluate(() => (window as Pressing).second);
}

test("u1: the second press of a double click on a request decides no other one", async ({ page, serve }) => {
  // Without people everybody has every role: the next level is asked at once, where the first one was.
  const { url } = await serve({ turns: oneOrder, approval: 'levels = ["user", "admin"]' });
  const card = await openCard(page, url);
  await pressTwice(page, card.getByRole("button", { name: "Approve", exact: true }), '.card[id$="_2"] [data-choice=approve]');
  await expect(resolved(page)).toHaveCount(1);
  await expect(card).toContainText("Level 2 of 2");
  await card.getByRole("button", { name: "Approve", exact: true }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
});

test("u1: the second press of a double click on Send does not stop the turn", async ({ page, serve }) => {
  const { url } = await serve({ turns: [{ text: "Hello." }, { text: "Done.", delay_ms: 1_500 }] });
  await begin(url, "s1");
  await page.goto(`${url}/#/s/s1`);
  await page.getByLabel("Message to the agent").fill("Go on");
  await pressTwice(page, page.getByRole("button", { name: "Send", exact: true }), ".composer-box .button:not(.primary)");
  await expect(page.locator(".markdown").last()).toHaveText("Done.");
  await expect(page.locator(".topbar")).toContainText("Finished");
});

test("u1: the second press of a double click on Revoke leaves the next rule in force", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(order), { text: "Done." }] });
  for (const session of ["s1", "s2"]) {
    await begin(url, session);
    const card = page.locator(".card");
    await page.goto(`${url}/#/s/${session}`);
    await card.getByRole("button", { name: "Make a rule…" }).click();
    await card.getByRole("button", { name: "Approve and make this rule" }).click();
    await expect(page.locator(".topbar")).toContainText("Finished");
  }
  await page.goto(`${url}/#/rules`);
  const rules = page.locator(".rule");
  await expect(rules).toHaveCount(2);
  await pressTwice(page, rules.first().getByRole("button"), ".rule .button");
  await expect(rules).toHaveCount(1);
  await page.reload();
  await expect(rules).toHaveCount(1);
});

test("u1: the second press of a double click in a dialog decides nothing beneath it", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(order), { text: "Done." }], timeout: 3000 });
  for (const session of ["s1", "s2", "s3"]) await begin(url, session);
  await page.goto(`${url}/#/inbox`);
  const rows = page.locator(".inbox-row");
  await expect(rows).toHaveCount(3);
  const boxes = rows.getByRole("checkbox");
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  await rows.nth(2).getByRole("link").click();
  const approve = page.locator(".card [data-choice=approve]");
  await expect(approve).toBeEnabled();
  await page.locator(".inbox-bulk").getByRole("button", { name: "Reject…" }).click();
  const dialog = page.getByRole("dialog");
  // The moment the dialog is gone, what is beneath is pressed.
  await dialog.evaluate((box) => {
    type Pressing = Window & { second?: Promise<void> };
    (window as Pressing).second = new Promise((resolve) => {
      const observer = new MutationObserver(() => {
        if (box.isConnected) return;
        observer.disconnect();
        requestAnimationFrame(() => {
          const { left, top, width, height } = document.querySelector(".card [data-choice=approve]")!.getBoundingClientRect();
          document.elementFromPoint(left + width / 2, top + height / 2)?.closest("button")?.click();
          resolve();
        });
      });
      observer.observe(document.body, { subtree: true, childList: true });
    });
  });
  await dialog.getByRole("button", { name: "Back" }).click();
  await page.evaluate(() => (window as Window & { second?: Promise<void> }).second);
  await expect(rows).toHaveCount(3);
  await expect(approve).toBeEnabled();
  await approve.click();
  await expect(rows).toHaveCount(2);
});

test("u1 u2: on the React package's cards the second press of a double click answers no other request", async ({ page, serve }) => {
  const site = await servePage("react");
  try {
    const asks = (n: number) => ({ name: "ask_user_question", args: JSON.stringify({ questions: [{ question: `${n}?`, multiSelect: false, options: [{ label: "A" }] }] }) });
    const { url } = await serve({ turns: [{ calls: [asks(1), asks(2)] }, { text: "Done." }], origins: [site.origin] });
    await page.goto(`${site.origin}/?server=${encodeURIComponent(url)}`);
    await page.getByRole("button", { name: "Start" }).click();
    const cards = page.locator('main [data-countersign="card"]');
    await expect(cards).toHaveCount(2);
    const skip = cards.first().getByRole("button", { name: "Skip" });
    await pressTwice(page, skip, 'main > [data-countersign="resolved"] ~ [data-countersign="card"] [data-part=skip]');
    await expect(page.locator('main > [data-countersign="resolved"]')).toHaveCount(1);
    await expect(cards).toHaveCount(1);
    await cards.getByRole("button", { name: "Skip" }).click();
    await expect(page.getByTestId("state")).toContainText("completed");
  } finally {
    await site.stop();
  }
});
