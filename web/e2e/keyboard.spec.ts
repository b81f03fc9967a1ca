/** Every main flow by the keyboard alone: no pointer is there, and the focus is always somewhere, and seen. */
import type { Locator, Page } from "@playwright/test";
import { ask, begin, call, expect, goal, order, resolved, test as base } from "./support/console.js";
import { seesFocus, tabTo } from "./support/keyboard.js";

const test = base.extend({
  page: async ({ page }, use) => {
    await page.addInitScript(() => {
      for (const kind of ["pointerdown", "mousedown", "touchstart"]) {
        addEventListener(kind, () => console.error("somebody has used a pointer"), { capture: true });
      }
    });
    await use(page);
  },
});

/** Come to something and press a key there; the focus is seen before and after it. */
async function press(page: Page, to: Locator, key = "Enter", then = {}): Promise<void> {
  await tabTo(page, to);
  await seesFocus(page);
  await page.keyboard.press(key);
  await seesFocus(page, then);
}

/** Come to a field and write in it, in place of what stands there. */
async function write(page: Page, field: Locator, text: string): Promise<void> {
  await tabTo(page, field);
  await page.keyboard.press("Control+a");
  await page.keyboard.type(text);
  await seesFocus(page);
}

/** After a decision the agent goes on, and its conversation with it. */
const movedOn = { movedOn: true };

const message = (page: Page) => page.getByLabel("Message to the agent");
const sidebar = (page: Page) => page.locator(".sidebar");
const card = (page: Page) => page.locator(".card");
/** Goes to the request; its keys are those of the card once that has the focus. */
async function goTo(page: Page): Promise<void> {
  await press(page, page.getByRole("button", { name: "Go to the request" }));
  await expect(card(page)).toBeFocused();
}

test("u1: signing in, asking, answering, editing, rejecting and signing out take no pointer", async ({ page, serve, tolerate }) => {
  tolerate.push(/401/, /WebSocket connection to/);
  test.setTimeout(180_000);
  const { url } = await serve({
    turns: [ask(goal), call(order), call(order), { text: "All done." }],
    people: { alice: ["user"] },
  });
  await page.goto(url);
  await expect(page.getByLabel("Access token")).toBeFocused();
  await page.keyboard.type("alice-token");
  await page.keyboard.press("Enter");
  await expect(message(page)).toBeVisible();
  await seesFocus(page);

  await write(page, message(page), "Plan my savings");
  await page.keyboard.press("Enter");
  await expect(card(page).getByRole("button", { name: "Skip" })).toBeVisible();
  await seesFocus(page);

  // A question.
  await goTo(page);
  await press(page, card(page).getByRole("radio").first(), "Space");
  await press(page, card(page).getByRole("button", { name: "Send answer" }), "Enter", movedOn);
  await expect(resolved(page)).toContainText("Steady dividends");
  await seesFocus(page, movedOn);

  // Other arguments, which are looked at before they are approved.
  const quantity = card(page).getByLabel("quantity");
  await goTo(page);
  await page.keyboard.press("e");
  await seesFocus(page);
  await write(page, quantity, "25");
  await expect(card(page).getByText("The policy accepts these values.")).toBeVisible();
  await press(page, card(page).getByRole("button", { name: "Approve with changes" }), "Enter", movedOn);
  await expect(resolved(page).last()).toContainText("25");
  await seesFocus(page, movedOn);

  // No, and why.
  await goTo(page);
  await page.keyboard.press("r");
  await seesFocus(page);
  await page.keyboard.type("Too dear");
  await press(page, card(page).getByRole("button", { name: "Reject", exact: true }));
  await expect(page.getByText("All done.")).toBeVisible();
  await expect(page.locator(".topbar")).toContainText("Finished");
  await seesFocus(page);

  await tabTo(page, sidebar(page).getByRole("button", { name: "Sign out" }));
  await seesFocus(page);
  await page.keyboard.press("Enter");
  await expect(page.getByLabel("Access token")).toBeFocused();
  await seesFocus(page);
});

test("u1: finding in the inbox and deciding many at once take no pointer", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call('{"symbol":"{{ last_user }}","quantity":100}'), { text: "Done." }], says: "template", timeout: 3000 });
  for (const symbol of ["FPT", "VNM", "VIC"]) await begin(url, symbol.toLowerCase(), symbol);
  await page.goto(url);
  await expect(message(page)).toBeVisible();
  await press(page, sidebar(page).getByRole("link", { name: /Inbox/ }));
  const rows = page.locator(".inbox-row");
  await expect(rows).toHaveCount(3);
  await seesFocus(page);
  await write(page, page.getByRole("searchbox", { name: "Search requests" }), "V");
  await expect(rows).toHaveCount(2);
  for (const title of ["Order VNM", "Order VIC"]) await press(page, rows.filter({ hasText: title }).getByRole("checkbox"), "Space");

  // Chosen, not chosen, and chosen again.
  const bar = page.locator(".inbox-bulk");
  await press(page, bar.getByRole("button", { name: "Clear" }));
  await expect(bar).toHaveCount(0);
  await seesFocus(page);
  for (const title of ["Order VNM", "Order VIC"]) await press(page, rows.filter({ hasText: title }).getByRole("checkbox"), "Space");
  await press(page, bar.getByRole("button", { name: "Reject" }));
  const dialog = page.getByRole("dialog");
  await write(page, dialog.getByRole("textbox"), "Not today");
  await press(page, dialog.getByRole("button", { name: "Reject 2" }));
  await expect(dialog).toHaveCount(0);
  await expect(rows).toHaveCount(0);
  await seesFocus(page);
  await press(page, page.getByRole("searchbox", { name: "Search requests" }), "Escape");
  await write(page, page.getByRole("searchbox", { name: "Search requests" }), "FPT");
  await press(page, rows.getByRole("link"));
  // Keys are for the request that is open, once it is there.
  await expect(card(page).getByRole("button", { name: "Approve", exact: true })).toBeVisible();
  await expect(page.locator(".inbox-pane[data-settling]")).toHaveCount(0);
  await page.keyboard.press("a");
  await expect(page.getByText("Nothing is waiting for you.")).toBeVisible();
  await seesFocus(page);
});

test("u1: renaming, continuing from an earlier point and deleting a session take no pointer", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(order), { text: "Done." }], timeout: 3000 });
  await begin(url, "s1", "Buy");
  await page.goto(`${url}/#/s/s1`);
  await expect(card(page)).toBeVisible();
  const dialog = page.getByRole("dialog");
  await press(page, sidebar(page).getByRole("button", { name: "Rename “Buy”" }));
  await write(page, dialog.getByRole("textbox"), "Savings");
  await page.keyboard.press("Enter");
  await expect(dialog).toHaveCount(0);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Savings");
  await seesFocus(page);

  await press(page, page.getByRole("button", { name: "Earlier points" }));
  await press(page, dialog.getByRole("listitem").filter({ hasText: "The agent answered" }).getByRole("button", { name: /Continue from here as a new session/ }));
  await expect(page).not.toHaveURL(/#\/s\/s1$/);
  await expect(dialog).toHaveCount(0);
  await expect(card(page)).toBeVisible();
  await seesFocus(page);

  const listed = sidebar(page).locator(".session-row");
  await expect(listed).toHaveCount(2);
  await press(page, sidebar(page).getByRole("button", { name: "Delete “Savings”" }).last());
  await press(page, dialog.getByRole("button", { name: "Delete for good" }));
  await expect(dialog).toHaveCount(0);
  await expect(listed).toHaveCount(1);
  await seesFocus(page);
});

test("u1: verifying the audit log takes no pointer", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(order)], timeout: 3000 });
  await begin(url, "s1");
  await page.goto(url);
  await expect(message(page)).toBeVisible();
  await press(page, sidebar(page).getByRole("link", { name: "Audit log" }));
  await expect(page.locator(".audit-row")).toHaveCount(1);
  await seesFocus(page);
  await press(page, page.getByRole("button", { name: "Verify" }));
  await expect(page.locator(".audit-found")).toBeVisible();
  await seesFocus(page);
  await press(page, page.locator(".audit-row summary").first());
  await expect(page.locator(".audit-row pre")).toBeVisible();
  await seesFocus(page);
});

for (const text of ["a".repeat(80), "one line\ntwo"]) {
  test(`u1: a field keeps the focus while its text becomes ${text.includes("\n") ? "one line" : "long"}`, async ({ page, serve }) => {
    const note = text.includes("\n") ? text : "short";
    const { url } = await serve({ turns: [call(JSON.stringify({ symbol: "VNM", quantity: 1, note })), { text: "Done." }] });
    await begin(url, "s1");
    await page.goto(`${url}/#/s/s1`);
    await goTo(page);
    await page.keyboard.press("e");
    const field = card(page).getByLabel("note");
    await write(page, field, text.replace("\n", " "));
    await expect(field).toBeFocused();
    await expect(field).toHaveValue(text.replace("\n", " "));
  });
}
