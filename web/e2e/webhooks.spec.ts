/** Webhooks in the console: how deliveries go, and what did not arrive, which is sent again or dropped. */
import { createServer } from "node:http";
import type { Page } from "@playwright/test";
import { begin, beginAll, call, checkAccessible, expect, hasNoSidewaysScroll, order, signIn, tabOf, test } from "./support/console.js";
import { press, seesFocus, withoutPointer } from "./support/keyboard.js";
import { APPEARANCES, speak } from "./support/words.js";
import { quietPort, type ServerOptions } from "./support/server.js";

/** Where nobody listens at first; a message is attempted once, so that each is dead at once. */
const deskAt = (port: number) => `
[webhooks.desk]
url = "http://127.0.0.1:${port}/hook?key=very-secret"
allow_private_networks = true
allow_http = true
format = "slack"
max_attempts = 1
`;
const asked = (port: number): ServerOptions => ({ turns: [call(order)], more: deskAt(port) });
const people = { alice: ["user"], olga: ["auditor"] };

/** Wait until so many messages are dead letters. */
async function dead(url: string, n: number, person?: string): Promise<void> {
  const headers: Record<string, string> = person ? { authorization: `Bearer ${person}-token` } : {};
  await expect
    .poll(async () => ((await (await fetch(`${url}/v1/webhooks`, { headers })).json()) as { webhooks: { dead: number }[] }).webhooks[0]?.dead)
    .toBe(n);
}

/** A receiver that gives this answer. */
async function receive(port: number, answer: { status: number }): Promise<() => Promise<void>> {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(answer.status, { connection: "close" }).end("ok");
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve));
  return () => new Promise((resolve) => server.close(() => resolve()));
}

const rows = (page: Page) => page.locator(".webhook-list .audit-row");
const said = (page: Page) => page.locator(".app > [role=status]");
const fact = (page: Page, name: string) => page.locator(".webhook > dl > div").filter({ has: page.getByText(name, { exact: true }) }).locator("dd");
const drop = (page: Page) => page.getByRole("button", { name: "Drop undelivered: desk" });

test("u1 u4: an auditor sees what did not arrive and why, sends one of it again, then the rest", async ({ page, context, serve, tolerate }) => {
  tolerate.push(/Failed to load resource.*403/);
  const port = await quietPort();
  const { url } = await serve({ ...asked(port), people });
  for (const session of ["s1", "s2", "s3"]) await begin(url, session, "Buy", "alice");
  await dead(url, 3, "olga");
  await signIn(page, "olga");
  await page.goto(url);
  await page.getByRole("link", { name: "Webhooks", exact: true }).click();
  await expect(page).toHaveURL(/#\/webhooks$/);
  await expect(page.getByRole("region", { name: "desk" })).toBeVisible();
  await expect(fact(page, "Sent to")).toHaveText("127.0.0.1");
  await expect(fact(page, "Dead letters")).toHaveText("3");
  await expect(fact(page, "To be attempted again")).toHaveText("0");
  await expect(fact(page, "Position in the audit log")).toHaveText("No. 3");
  await expect(page.locator("body")).not.toContainText("very-secret");
  await page.getByRole("button", { name: "Undelivered messages: 3" }).click();
  await expect(rows(page)).toHaveCount(3);
  const first = rows(page).first();
  await expect(first).toContainText("No. 1");
  await expect(first.locator("strong")).toHaveText("Approval requested");
  await expect(first).toContainText("Attempts: 1");
  await expect(first).toContainText("Dead letter: not attempted again");
  await expect(first.locator("time")).toHaveAttribute("datetime", /^20\d\d-.*Z$/);
  await expect(first.getByRole("link", { name: "Session s1" })).toHaveAttribute("href", "#/s/s1");
  await expect(first.getByRole("link", { name: "Request s1_1" })).toHaveAttribute("href", "#/inbox?open=s1_1");

  const answer = { status: 500 };
  const stop = await receive(port, answer);
  const again = page.getByRole("button", { name: "Send again: record 1", exact: true });
  await again.click();
  await expect(said(page)).toHaveText("desk: messages to be sent again: 1.");
  await expect(first).toContainText("500 Internal Server Error");
  await expect(first).toContainText("Dead letter: not attempted again");
  answer.status = 200;
  await again.press("Enter");
  await expect(rows(page)).toHaveCount(2);
  await expect(first).toContainText("No. 2");
  await expect(page.locator(".webhook-list")).toBeFocused();
  await page.getByRole("button", { name: "Send all again: desk" }).click();
  await expect(page.getByText("There are no undelivered messages.", { exact: true })).toBeVisible();
  await expect(said(page)).toHaveText("desk: no undelivered messages are left.");
  await expect(fact(page, "Dead letters")).toHaveText("0");
  await expect(drop(page)).toHaveCount(0);
  await stop();

  // A person who is no auditor has no link to it, and its address says why.
  const alice = await tabOf(context, "alice", `${url}/#/webhooks`);
  await expect(alice.getByRole("alert")).toContainText("You may not do this.");
  await expect(alice.getByRole("alert")).toContainText("auditor");
  await expect(alice.getByRole("link", { name: "Webhooks", exact: true })).toHaveCount(0);
});

test("u1 u4: what is dropped is named before, and nothing is dropped by the first press", async ({ page, serve }) => {
  const { url } = await serve(asked(await quietPort()));
  await begin(url, "s1");
  await begin(url, "s2");
  await dead(url, 2);
  await page.goto(`${url}/#/webhooks`);
  await drop(page).click();
  const dialog = page.getByRole("dialog", { name: "Drop the undelivered messages of “desk”?" });
  await expect(dialog).toContainText("lost for good: 2 (to be attempted again: 0; dead letters: 2).");
  await expect(dialog.getByRole("button", { name: "Back" })).toBeFocused();
  await checkAccessible(page, "drop");
  await page.keyboard.press("Escape");
  await expect(dialog).toHaveCount(0);
  await expect(drop(page)).toBeFocused();
  await dead(url, 2);
  await drop(page).press("Enter");
  await dialog.getByRole("button", { name: "Drop for good" }).click();
  await expect(said(page)).toHaveText("desk: messages dropped: 2.");
  await expect(fact(page, "Dead letters")).toHaveText("0");
  await expect(drop(page)).toHaveCount(0);
  await expect(page.getByRole("region", { name: "desk" })).toBeFocused();
  await dead(url, 0);
});

test("u1 u4: sending again and dropping take no pointer, on a phone and in another language", async ({ page, serve }) => {
  const t = await speak(page, "vi");
  await withoutPointer(page);
  await page.setViewportSize({ width: 390, height: 844 });
  const port = await quietPort();
  const { url } = await serve(asked(port));
  for (const session of ["s1", "s2"]) await begin(url, session);
  await dead(url, 2);
  await page.goto(`${url}/#/webhooks`);
  await press(page, page.getByRole("button", { name: t("webhooks.show", { n: 2 }) }));
  await expect(rows(page)).toHaveCount(2);
  const stop = await receive(port, { status: 200 });
  await press(page, page.getByRole("button", { name: t("webhooks.sendFor", { n: 1 }), exact: true }));
  await expect(rows(page)).toHaveCount(1);
  await seesFocus(page);
  await stop();
  const dialog = page.getByRole("dialog");
  await press(page, page.getByRole("button", { name: t("webhooks.dropFor", { name: "desk" }) }));
  await expect(dialog.getByRole("button", { name: t("decide.back") })).toBeFocused();
  await press(page, dialog.getByRole("button", { name: t("webhooks.dropConfirm") }));
  await expect(dialog).toHaveCount(0);
  await dead(url, 0);
  await seesFocus(page);
});

test("u1 u4: many dead letters are read by page, and stay in view when one is sent again", async ({ page, serve }) => {
  const { url } = await serve({ ...asked(await quietPort()), timeout: 3000 });
  await beginAll(url, Array.from({ length: 30 }, (_, i) => `s${i}`));
  await dead(url, 30);
  await page.goto(`${url}/#/webhooks`);
  await page.getByRole("button", { name: "Undelivered messages: 30" }).click();
  await expect(rows(page)).toHaveCount(20);
  await page.getByRole("button", { name: "Show more", exact: true }).click();
  await expect(rows(page)).toHaveCount(30);
  await expect(rows(page).last().getByRole("link", { name: "Session" })).toBeVisible();
  await page.getByRole("button", { name: "Send again: record 30", exact: true }).click();
  await expect(said(page)).toHaveText("desk: messages to be sent again: 1.");
  await expect(rows(page)).toHaveCount(30);
});

test("u1 u4: without webhooks the page says what they are and where they are set", async ({ page, serve }) => {
  const { url } = await serve({ turns: [] });
  await page.goto(`${url}/#/webhooks`);
  await expect(page.getByText("There are no webhooks that you may see.")).toBeVisible();
  await expect(page.getByText("[webhooks.NAME]")).toBeVisible();
  await checkAccessible(page, "no webhooks");
});

for (const [language, colorScheme] of APPEARANCES) {
  test.describe(`${language}, ${colorScheme}`, () => {
    test.use({ colorScheme });
    test("u1: the webhooks are readable and accessible at two widths", async ({ page, serve }) => {
      const { url } = await serve(asked(await quietPort()));
      await begin(url, "s1");
      await dead(url, 1);
      await page.addInitScript((l) => localStorage.setItem("countersign:language", l), language);
      await page.goto(`${url}/#/webhooks`);
      await page.locator(".webhook [aria-expanded]").click();
      await expect(rows(page)).toHaveCount(1);
      for (const width of [1280, 360]) {
        await page.setViewportSize({ width, height: 800 });
        await checkAccessible(page, `webhooks, ${language}, ${width}`);
        await hasNoSidewaysScroll(page);
        const wide = await page.locator(".rules").evaluate((box) => box.scrollWidth - box.clientWidth);
        expect(wide).toBe(0);
        if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/webhooks-${language}-${colorScheme}-${width}.png`, fullPage: true });
      }
    });
  });
}
