/** Every main flow by the keyboard alone: no pointer is there, and the focus is always somewhere, and seen. */
import type { Locator, Page } from "@playwright/test";
import { ask, begin, call, expect, goal, order, resolved, test as base } from "./support/console.js";
import { press, seesFocus, tabTo, withoutPointer, write } from "./support/keyboard.js";
import { EVERYWHERE, labels, speak, type Words } from "./support/words.js";

const test = base.extend({
  page: async ({ page }, use) => {
    await withoutPointer(page);
    await use(page);
  },
});

/** After a decision the agent continues, and so does its conversation. */
const movedOn = { movedOn: true };

const message = (page: Page, t: Words) => page.getByLabel(t("composer.label"));
const sidebar = (page: Page) => page.locator(".sidebar");
const card = (page: Page) => page.locator(".card");
const button = (within: Locator, name: string) => within.getByRole("button", { name, exact: true });

/** The session list, which lies over the page of a phone once it is opened. */
async function list(page: Page, t: Words): Promise<Locator> {
  if ((page.viewportSize()?.width ?? 0) < 800) await press(page, page.getByRole("button", { name: t("app.menu") }));
  return sidebar(page);
}

/** Goes to the request; its keys are those of the card once that has the focus. */
async function goTo(page: Page, t: Words): Promise<void> {
  await press(page, page.getByRole("button", { name: t("composer.goTo") }));
  await expect(card(page)).toBeFocused();
}

for (const [language, width] of EVERYWHERE) {
  test.describe(`${language}, ${width}`, () => {
    test.use({ viewport: { width, height: width < 800 ? 844 : 800 } });

    test("u1: signing in, asking, answering, editing, rejecting and signing out take no pointer", async ({ page, serve, tolerate }) => {
      tolerate.push(/401/, /WebSocket connection to/);
      const t = await speak(page, language);
      const { url } = await serve({
        turns: [ask(goal), call(order), call(order), { text: "All done." }],
        people: { alice: ["user"] },
      });
      await page.goto(url);
      await expect(page.getByLabel(t("token.label"))).toBeFocused();
      await page.keyboard.type("alice-token");
      await page.keyboard.press("Enter");
      await expect(message(page, t)).toBeVisible();
      await seesFocus(page);

      await write(page, message(page, t), "Plan my savings");
      await page.keyboard.press("Enter");
      await expect(button(card(page), labels[language].questions.skip)).toBeVisible();
      await seesFocus(page);

      // A question.
      await goTo(page, t);
      await press(page, card(page).getByRole("radio").first(), "Space");
      await press(page, button(card(page), labels[language].questions.send), "Enter", movedOn);
      await expect(resolved(page)).toContainText("Steady dividends");
      await seesFocus(page, movedOn);

      // Other arguments, which are looked at before they are approved.
      const quantity = card(page).getByLabel("quantity");
      await goTo(page, t);
      await page.keyboard.press("e");
      await seesFocus(page);
      await write(page, quantity, "25");
      await expect(card(page).getByText(t("edit.accepted"))).toBeVisible();
      await press(page, button(card(page), t("decide.approveEdited")), "Enter", movedOn);
      await expect(resolved(page).last()).toContainText("25");
      await seesFocus(page, movedOn);

      // No, and why.
      await goTo(page, t);
      await page.keyboard.press("r");
      await seesFocus(page);
      await page.keyboard.type("Too dear");
      await press(page, button(card(page), t("decide.confirmReject")));
      await expect(page.getByText("All done.")).toBeVisible();
      await expect(page.locator(".topbar")).toContainText(t("status.completed"));
      await seesFocus(page);

      await tabTo(page, button(await list(page, t), t("token.signOut")));
      await seesFocus(page);
      await page.keyboard.press("Enter");
      await expect(page.getByLabel(t("token.label"))).toBeFocused();
      await seesFocus(page);
    });

    test("u1: finding in the inbox and deciding many at once take no pointer", async ({ page, serve }) => {
      const t = await speak(page, language);
      const { url } = await serve({ turns: [call('{"symbol":"{{ last_user }}","quantity":100}'), { text: "Done." }], says: "template", timeout: 3000 });
      for (const symbol of ["FPT", "VNM", "VIC"]) await begin(url, symbol.toLowerCase(), symbol);
      await page.goto(url);
      await expect(message(page, t)).toBeVisible();
      await press(page, (await list(page, t)).getByRole("link", { name: t("inbox.open") }));
      const rows = page.locator(".inbox-row");
      const search = page.getByRole("searchbox", { name: t("inbox.search") });
      await expect(rows).toHaveCount(3);
      await seesFocus(page);
      await write(page, search, "V");
      await expect(rows).toHaveCount(2);
      const choose = async () => {
        for (const title of ["Order VNM", "Order VIC"]) await press(page, rows.filter({ hasText: title }).getByRole("checkbox"), "Space");
      };
      await choose();

      // Chosen, not chosen, and chosen again.
      const bar = page.locator(".inbox-bulk");
      await press(page, button(bar, t("bulk.clear")));
      await expect(bar).toHaveCount(0);
      await seesFocus(page);
      await choose();
      await press(page, button(bar, t("bulk.reject")));
      const dialog = page.getByRole("dialog");
      await write(page, dialog.getByRole("textbox"), "Not today");
      await press(page, button(dialog, t("bulk.confirm.reject", { n: 2 })));
      await expect(dialog).toHaveCount(0);
      await expect(rows).toHaveCount(0);
      await seesFocus(page);
      await press(page, search, "Escape");
      await write(page, search, "FPT");
      await press(page, rows.getByRole("link"));
      // Keys are for the request that is open, once it is there.
      await expect(button(card(page), t("decide.approve"))).toBeVisible();
      await expect(page.locator("[data-settling] .inbox-pane")).toHaveCount(0);
      await page.keyboard.press("a");
      await expect(page.getByText(t("inbox.empty"))).toBeVisible();
      await seesFocus(page);
    });

    test("u1: renaming, continuing from an earlier point, deleting a session and verifying the audit log take no pointer", async ({ page, serve }) => {
      const t = await speak(page, language);
      const { url } = await serve({ turns: [call(order), { text: "Done." }], timeout: 3000 });
      await begin(url, "s1", "Buy");
      await page.goto(`${url}/#/s/s1`);
      await expect(card(page)).toBeVisible();
      const dialog = page.getByRole("dialog");
      await press(page, button(await list(page, t), t("sessions.rename", { title: "Buy" })));
      await write(page, dialog.getByRole("textbox"), "Savings");
      await page.keyboard.press("Enter");
      await expect(dialog).toHaveCount(0);
      await expect(page.getByRole("heading", { level: 1 })).toHaveText("Savings");
      await seesFocus(page);
      if (width < 800) await page.keyboard.press("Escape");

      await press(page, page.getByRole("button", { name: t("past.open") }));
      const answered = dialog.getByRole("listitem").filter({ hasText: t("past.after.answer") });
      await press(page, answered.getByRole("button", { name: t("past.fork") }));
      await expect(page).not.toHaveURL(/#\/s\/s1$/);
      await expect(dialog).toHaveCount(0);
      await expect(card(page)).toBeVisible();
      await seesFocus(page);

      const listed = sidebar(page).locator(".session-row");
      await expect(listed).toHaveCount(2);
      await press(page, button(await list(page, t), t("sessions.delete", { title: "Savings" })).last());
      await press(page, button(dialog, t("sessions.deleteConfirm")));
      await expect(dialog).toHaveCount(0);
      await expect(listed).toHaveCount(1);
      await seesFocus(page);
      if (width < 800) await page.keyboard.press("Escape");

      await press(page, (await list(page, t)).getByRole("link", { name: t("audit.heading") }));
      await expect(page.locator(".audit-row").first()).toBeVisible();
      await seesFocus(page);
      await press(page, button(page.locator("main"), t("audit.verify")));
      await expect(page.locator(".audit-found")).toBeVisible();
      await seesFocus(page);
      await press(page, page.locator(".audit-row summary").first());
      await expect(page.locator(".audit-row pre").first()).toBeVisible();
      await seesFocus(page);
    });
  });
}

for (const text of ["a".repeat(80), "one line\ntwo"]) {
  test(`u1: a field keeps the focus while its text becomes ${text.includes("\n") ? "one line" : "long"}`, async ({ page, serve }) => {
    const note = text.includes("\n") ? text : "short";
    const t = await speak(page, "en");
    const { url } = await serve({ turns: [call(JSON.stringify({ symbol: "VNM", quantity: 1, note })), { text: "Done." }] });
    await begin(url, "s1");
    await page.goto(`${url}/#/s/s1`);
    await goTo(page, t);
    await page.keyboard.press("e");
    const field = card(page).getByLabel("note");
    await write(page, field, text.replace("\n", " "));
    await expect(field).toBeFocused();
    await expect(field).toHaveValue(text.replace("\n", " "));
  });
}
