/** The list of sessions: finding one, renaming one, deleting one; and who is signed in. */
import type { Page } from "@playwright/test";
import { begin, beginAll, call, checkAccessible, expect, hasNoSidewaysScroll, neverByItself, order, signIn, tabOf, test } from "./support/console.js";
import { APPEARANCES } from "./support/words.js";

const nav = (page: Page) => page.locator(".session-nav");
const listed = (page: Page) => nav(page).locator(".session-row");
const search = (page: Page) => page.getByRole("searchbox", { name: "Search sessions by title or id" });

test("u1: sessions are found by title and id, with or without accents, and it says what was searched", async ({ page, serve }) => {
  const { url } = await serve({ turns: [{ text: "Done." }] });
  await begin(url, "alpha-1", "Mua 100 cổ phiếu FPT");
  await begin(url, "beta-2", "Sell VNM");
  await begin(url, "gamma-3", "Sell FPT");
  await page.goto(url);
  await expect(listed(page)).toHaveCount(3);
  await search(page).fill("mua co phieu");
  await expect(listed(page)).toHaveCount(1);
  await expect(listed(page)).toContainText("Mua 100 cổ phiếu FPT");
  await expect(nav(page).getByRole("status")).toHaveText("1 of 3 sessions");
  await search(page).fill("GAMMA");
  await expect(listed(page)).toHaveCount(1);
  await expect(listed(page)).toContainText("Sell FPT");
  await search(page).fill("fpt nothing");
  await expect(listed(page)).toHaveCount(0);
  await expect(nav(page).getByRole("status")).toHaveText("0 of 3 sessions");
  await search(page).press("Escape");
  await expect(search(page)).toHaveValue("");
  await expect(listed(page)).toHaveCount(3);
});

test("u1: where older sessions are not loaded, a search says so, and finds them once they are", async ({ page, serve }) => {
  const { url } = await serve({ turns: [{ text: "Done." }] });
  await begin(url, "needle", "The oldest of all");
  await beginAll(url, Array.from({ length: 50 }, (_, i) => `s${i}`));
  await page.goto(url);
  await expect(listed(page)).toHaveCount(50);
  await search(page).fill("oldest");
  await expect(nav(page).getByRole("status")).toHaveText("0 of the 50 newest sessions; older ones are not loaded.");
  await nav(page).getByRole("button", { name: "Show more" }).click();
  await expect(listed(page)).toHaveCount(1);
  await expect(nav(page).getByRole("status")).toHaveText("1 of 51 sessions");
});

test("u1: a session is renamed by the keyboard, and is called so in every tab at once", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: [{ text: "Done." }] });
  await begin(url, "s1", "Mua 100 cổ phiếu FPT");
  await begin(url, "s2", "Sell VNM");
  const other = await context.newPage();
  // A hidden tab polls its lists only every 15 seconds; this one never does.
  await neverByItself(other);
  await other.addInitScript(() => Object.defineProperty(document, "hidden", { get: () => true }));
  await other.goto(`${url}/#/s/s1`);
  await expect(other.getByRole("heading", { level: 1 })).toHaveText("Mua 100 cổ phiếu FPT");
  await page.goto(url);
  await expect(listed(page)).toHaveCount(2);

  const rename = nav(page).getByRole("button", { name: "Rename “Mua 100 cổ phiếu FPT”" });
  await rename.focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Rename this session" });
  const field = dialog.getByRole("textbox", { name: "Title" });
  await expect(field).toBeFocused();
  await expect(field).toHaveValue("Mua 100 cổ phiếu FPT");
  await checkAccessible(page, "renaming");
  // Typing replaces the title, and Escape keeps the old one.
  await page.keyboard.type("Never mind");
  await page.keyboard.press("Escape");
  await expect(dialog).toBeHidden();
  await expect(rename).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(field).toHaveValue("Mua 100 cổ phiếu FPT");
  // A title that is too long is reported before it is sent; its length counts characters.
  await field.fill("字".repeat(201));
  await expect(dialog.getByRole("alert")).toHaveText("A title has at most 200 characters.");
  await expect(dialog.getByRole("button", { name: "Save" })).toBeDisabled();
  await checkAccessible(page, "a title that is too long");
  await field.fill("  FPT, tháng 11 ");
  await page.keyboard.press("Enter");
  await expect(dialog).toBeHidden();
  await expect(listed(page).first()).toContainText("FPT, tháng 11");
  await expect(nav(page).getByRole("button", { name: "Rename “FPT, tháng 11”" })).toBeFocused();
  // In the list and the header of a tab that looks at it.
  await expect(listed(other).filter({ hasText: "FPT, tháng 11" })).toHaveCount(1);
  await expect(other.getByRole("heading", { level: 1 })).toHaveText("FPT, tháng 11");
  await search(page).fill("thang 11");
  await expect(listed(page)).toHaveCount(1);

  // Where it is open; and of two who rename it, the later one stays.
  await other.locator(".topbar").getByRole("button", { name: "Rename “FPT, tháng 11”" }).click();
  await other.getByRole("textbox", { name: "Title" }).fill("Later");
  await other.keyboard.press("Enter");
  await expect(other.getByRole("heading", { level: 1 })).toHaveText("Later");
  await search(page).fill("later");
  await expect(listed(page)).toHaveCount(1);
  // An empty one gives the automatic title back.
  await other.locator(".topbar").getByRole("button", { name: "Rename “Later”" }).click();
  await other.getByRole("textbox", { name: "Title" }).fill(" ");
  await other.getByRole("button", { name: "Save" }).click();
  await expect(other.getByRole("heading", { level: 1 })).toHaveText("Mua 100 cổ phiếu FPT");
  // Saved as it was, it stays automatic: nothing is sent.
  let sent = 0;
  other.on("request", (request) => (sent += Number(request.method() === "PATCH")));
  await other.locator(".topbar").getByRole("button", { name: "Rename “Mua 100 cổ phiếu FPT”" }).click();
  await other.keyboard.press("Enter");
  await expect(other.getByRole("dialog")).toBeHidden();
  expect(sent).toBe(0);
});

test("u1: only whose session it is can rename it, and what the server refuses is said", async ({ page, context, serve, tolerate }) => {
  tolerate.push(/Failed to load resource.*503/);
  const { url } = await serve({ turns: [call(order)], people: { alice: ["user"], bob: ["admin"] }, approval: 'levels = ["admin"]' });
  await begin(url, "s1", "Buy", "alice");
  const bob = await tabOf(context, "bob", `${url}/#/s/s1`);
  await expect(bob.locator(".card")).toBeVisible();
  await expect(bob.getByRole("button", { name: /^Rename/ })).toHaveCount(0);
  await signIn(page, "alice");
  await page.goto(`${url}/#/s/s1`);
  await page.locator(".topbar").getByRole("button", { name: "Rename “Buy”" }).click();
  await page.route("**/v1/sessions/s1", (route) =>
    route.fulfill({ status: 503, contentType: "application/problem+json", body: '{"type":"about:blank","title":"x","status":503,"code":"store_unavailable","detail":"no room"}' }),
  );
  const dialog = page.getByRole("dialog", { name: "Rename this session" });
  await dialog.getByRole("textbox").fill("Trade of VNM");
  await page.keyboard.press("Enter");
  await expect(dialog.getByRole("alert")).toContainText("no room");
  await page.unroute("**/v1/sessions/s1");
  await page.keyboard.press("Enter");
  await expect(dialog).toBeHidden();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Trade of VNM");
  await expect(bob.getByRole("heading", { level: 1 })).toHaveText("Trade of VNM");
});

test("u1: a session is deleted once somebody has seen what is lost with it, and is gone in every tab", async ({ page, context, serve, tolerate }) => {
  tolerate.push(/Failed to load resource.*410/);
  const { url } = await serve({ turns: [call(order)], timeout: 3000, says: "template" });
  await begin(url, "doomed", "Buy VNM");
  await begin(url, "other", "Buy FPT");
  const other = await context.newPage();
  await other.goto(`${url}/#/s/doomed`);
  await expect(other.locator(".card")).toBeVisible();
  await page.goto(`${url}/#/s/doomed`);
  await expect(page.locator(".card")).toBeVisible();

  // By the keyboard alone.
  const remove = nav(page).getByRole("button", { name: "Delete “Buy VNM”" });
  await remove.focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Delete this session?" });
  await expect(dialog).toContainText("Pending in it, and deleted with it:");
  await expect(dialog.getByRole("listitem")).toHaveText("Order VNM");
  await expect(dialog).toContainText("Its records in the audit log stay");
  await checkAccessible(page, "deleting");
  // Escape deletes nothing, nor does Enter on the focused button.
  await expect(dialog.getByRole("button", { name: "Back" })).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(dialog).toBeHidden();
  await expect(remove).toBeFocused();
  await expect(listed(page)).toHaveCount(2);
  await page.keyboard.press("Enter");
  await expect(dialog.getByRole("button", { name: "Back" })).toBeFocused();
  // Closed and opened again before the page is drawn, as on a machine that is busy.
  await dialog.evaluate(async (open: HTMLDialogElement & { requestClose(): void }) => {
    open.requestClose();
    await null;
    (document.activeElement as HTMLElement).click();
  });
  await expect(dialog.getByRole("button", { name: "Back" })).toBeFocused();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");

  await expect(dialog).toBeHidden();
  await expect(page).toHaveURL(/#\/$/);
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
  await expect(listed(page)).toHaveCount(1);
  await expect(page.locator(".sidebar .count [aria-hidden]")).toHaveText("1");
  expect((await fetch(`${url}/v1/sessions/doomed`)).status).toBe(410);
  // A tab that shows the session learns of it, without a reload and after one.
  await expect(other.getByText("This session was deleted.")).toBeVisible();
  await expect(other.locator(".card")).toHaveCount(0);
  await expect(listed(other)).toHaveCount(1);
  await checkAccessible(other, "deleted");
  await other.reload();
  await expect(other.getByText("This session was deleted.")).toBeVisible();
  // Its records stay: what was asked, that it was withdrawn, the end of its call, and who deleted it.
  await page.getByRole("link", { name: "Audit log" }).click();
  await expect(page.locator(".audit-row").filter({ hasText: "doomed" })).toHaveCount(4);
});

test("u1: only whose session it is can delete it, and what the server refuses is said", async ({ page, context, serve, tolerate }) => {
  tolerate.push(/Failed to load resource.*503/);
  const { url } = await serve({ turns: [call(order)], people: { alice: ["user"], bob: ["admin"] }, approval: 'levels = ["admin"]' });
  await begin(url, "s1", "Buy", "alice");
  const bob = await tabOf(context, "bob", url);
  await expect(listed(bob)).toHaveCount(1);
  await expect(bob.getByRole("button", { name: /^Delete/ })).toHaveCount(0);
  await signIn(page, "alice");
  await page.goto(url);
  await page.getByRole("button", { name: "Delete “Buy”" }).click();
  await page.route("**/v1/sessions/s1", (route) =>
    route.fulfill({ status: 503, contentType: "application/problem+json", body: '{"type":"about:blank","title":"x","status":503,"code":"store_unavailable","detail":"no room"}' }),
  );
  const dialog = page.getByRole("dialog", { name: "Delete this session?" });
  await dialog.getByRole("button", { name: "Delete for good" }).click();
  await expect(dialog.getByRole("alert")).toContainText("no room");
  await expect(listed(page)).toHaveCount(1);
  await page.unroute("**/v1/sessions/s1");
  await dialog.getByRole("button", { name: "Delete for good" }).click();
  await expect(listed(page)).toHaveCount(0);
});

test("u1: who is signed in, and with which roles, is always in view", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: [], people: { alice: ["user", "admin"], bob: [] } });
  await signIn(page, "alice");
  await page.goto(url);
  await expect(page.locator(".who")).toHaveText("Signed in as aliceRoles: user, admin");
  await checkAccessible(page, "signed in");
  const bob = await tabOf(context, "bob", url);
  await expect(bob.locator(".who")).toHaveText("Signed in as bobNo roles");
});

test("u1: where nobody signs in, nobody is named", async ({ page, serve }) => {
  const { url } = await serve({ turns: [] });
  await page.goto(url);
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
  await expect(page.locator(".who")).toHaveCount(0);
});

for (const [language, colorScheme] of APPEARANCES) {
  test.describe(`${language}, ${colorScheme}`, () => {
    test.use({ colorScheme });
    test("u1: the sidebar and its dialog are readable at two widths", async ({ page, serve }) => {
      const { url } = await serve({ turns: [call(order)], timeout: 3000, people: { alice: ["user", "admin", "auditor"] }, says: "template" });
      await begin(url, "s1", "Buy VNM before the market closes, if it is below 82,000", "alice");
      await signIn(page, "alice");
      await page.addInitScript((l) => localStorage.setItem("countersign:language", l), language);
      for (const width of [1280, 360]) {
        await page.setViewportSize({ width, height: 800 });
        await page.goto(url);
        if (width < 800) await page.locator(".topbar .icon-button").first().click();
        await expect(listed(page)).toHaveCount(1);
        await page.getByRole("searchbox").fill("vnm");
        await checkAccessible(page, `sidebar, ${language}, ${width}`);
        await hasNoSidewaysScroll(page);
        if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/sidebar-${language}-${colorScheme}-${width}.png` });
        await page.locator(".session-delete").focus();
        if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/row-${language}-${colorScheme}-${width}.png` });
        await page.keyboard.press("Enter");
        await expect(page.getByRole("dialog")).toBeVisible();
        await checkAccessible(page, `deleting, ${language}, ${width}`);
        if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/delete-${language}-${colorScheme}-${width}.png` });
        await page.keyboard.press("Escape");
        await page.goto(`${url}/#/s/s1`);
        await page.locator(".topbar-detail button").last().click();
        await page.getByRole("textbox").last().fill("字".repeat(201));
        await expect(page.getByRole("dialog").getByRole("alert")).toBeVisible();
        await checkAccessible(page, `renaming, ${language}, ${width}`);
        await hasNoSidewaysScroll(page);
        if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/rename-${language}-${colorScheme}-${width}.png` });
        await page.keyboard.press("Escape");
        if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/renamable-${language}-${colorScheme}-${width}.png` });
      }
    });
  });
}
