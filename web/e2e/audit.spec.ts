/** The audit log in the console: who decided what and when, whether the chain holds, and a file of it. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import type { Page } from "@playwright/test";
import { begin, beginAll, call, checkAccessible, expect, hasNoSidewaysScroll, oneOrder, openCard, order, signIn, tabOf, test } from "./support/console.js";
import { binary } from "./support/server.js";
import { APPEARANCES } from "./support/words.js";

const run = promisify(execFile);
const rows = (page: Page) => page.locator(".audit-row");

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

/** Approve over HTTP, as somebody. */
async function approve(url: string, key: string, person?: string): Promise<void> {
  const answer = await fetch(`${url}/v1/approvals/${key}?wait=true`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(person ? { authorization: `Bearer ${person}-token` } : {}) },
    body: '{"decisions":[{"type":"approve"}]}',
  });
  expect(answer.status).toBe(200);
}

test("u1 r8: the newest record comes first, with who and when, and leads to its session", async ({ page, context, serve, tolerate }) => {
  tolerate.push(/Failed to load resource.*403/);
  const { url } = await serve({ turns: oneOrder, people: { alice: ["user"], bob: ["admin"], olga: ["auditor"] }, approval: 'levels = ["admin"]' });
  await begin(url, "s1", "Buy", "alice");
  await approve(url, "s1_1", "bob");
  await signIn(page, "olga");
  await page.goto(url);
  await page.getByRole("link", { name: "Audit log" }).click();
  await expect(page).toHaveURL(/#\/audit$/);
  await expect(rows(page)).toHaveCount(3);
  await expect(rows(page).locator("strong")).toHaveText(["Ran", "Approved", "Approval requested"]);
  await expect(rows(page).locator("code").filter({ hasText: "execute_trade" })).toHaveCount(2);
  await expect(rows(page).nth(1)).toContainText("by bob");
  await expect(rows(page).nth(1).locator("time")).toHaveAttribute("datetime", /^20\d\d-.*Z$/);
  // Digits as they are stored.
  await rows(page).nth(2).getByText("Details of record 1").click();
  await expect(rows(page).nth(2).locator("pre")).toContainText('"price": 82000.10');
  await expect(rows(page).nth(2).locator("pre")).toContainText('"order_ref": 9007199254740993');
  await expect(rows(page).nth(1).getByRole("link", { name: "Session s1" })).toHaveAttribute("href", "#/s/s1");

  // A person who is no auditor has no link to it, and its address says why.
  const alice = await tabOf(context, "alice", `${url}/#/audit`);
  await expect(alice.getByRole("alert")).toContainText("You may not do this.");
  await expect(alice.getByRole("alert")).toContainText("auditor");
  await expect(alice.getByRole("link", { name: "Audit log" })).toHaveCount(0);
  await expect(alice.getByRole("button", { name: "Verify" })).toHaveCount(0);
});

test("u1 r8: a long log is read by page, each record once, also while more is recorded", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(order)], timeout: 3000 });
  await beginAll(url, Array.from({ length: 70 }, (_, i) => `s${i}`));
  await page.goto(`${url}/#/audit`);
  await expect(rows(page)).toHaveCount(50);
  await expect(rows(page).first()).toContainText("No. 70");
  await begin(url, "later");
  await page.getByRole("button", { name: "Show older" }).click();
  await expect(rows(page)).toHaveCount(70);
  await expect(rows(page).last()).toContainText("No. 1");
  await expect(page.getByRole("button", { name: "Show older" })).toHaveCount(0);
  await page.getByRole("button", { name: "Refresh" }).click();
  await expect(rows(page).first()).toContainText("No. 71");
});

test("u1 r8: the server verifies the chain, against an anchor too, and a fault is named", async ({ page, serve, tolerate }) => {
  tolerate.push(/Failed to load resource.*400/);
  const { url } = await serve({ turns: oneOrder });
  await begin(url, "s1");
  await approve(url, "s1_1");
  await page.goto(`${url}/#/audit`);
  const verify = page.getByRole("button", { name: "Verify" });
  await verify.click();
  await expect(page.locator(".audit-good")).toHaveText("Intact: every record is the one that was written. Records: 3.");
  const anchor = await page.locator(".audit-found pre").textContent();
  expect(anchor).toMatch(/^3:[0-9a-f]{64}$/);
  const field = page.getByLabel("Earlier anchor (optional)");
  await field.fill(anchor!);
  await field.press("Enter");
  await expect(page.getByText("Your earlier anchor matches: nothing up to it was cut off or rewritten.")).toBeVisible();
  await checkAccessible(page, "verified");
  // Another log's, and none at all.
  await field.fill(`3:${"0".repeat(64)}`);
  await verify.click();
  await expect(page.getByRole("alert")).toContainText("Not intact: something is wrong at record 3.");
  await checkAccessible(page, "not intact");
  await field.fill("yesterday");
  await verify.click();
  await expect(page.getByRole("alert")).toContainText('"yesterday" is not an anchor');
});

test("u1 r8: a tenant's auditor learns that the whole chain was verified and how much of it is theirs", async ({ page, serve }) => {
  const { url } = await serve({
    turns: [call(order)],
    people: { zoe: ["user"] },
    more: ["north", "south"].map((tenant) => tenantOf(tenant)).join(""),
  });
  await begin(url, "s1", "Buy", "north");
  await begin(url, "s2", "Buy", "south");
  await begin(url, "s3", "Buy", "zoe");
  await signIn(page, "north");
  await page.goto(`${url}/#/audit`);
  await expect(rows(page)).toHaveCount(1);
  await page.getByRole("button", { name: "Verify" }).click();
  await expect(page.locator(".audit-good")).toContainText("Intact: every record is the one that was written. Records: 3.");
  await expect(page.getByText("You may read 1 of the 3 records; the others belong to other tenants and were verified too.")).toBeVisible();
});

/** A person of a tenant, who is its auditor too. */
function tenantOf(tenant: string): string {
  return `[[auth.tokens]]\nsubject = "${tenant}"\ntenant = "${tenant}"\nroles = ["user", "auditor"]\ntoken_sha256 = "${sha256(`${tenant}-token`)}"\n`;
}

test("u1 r8: what is exported is the log, digit for digit, and verifies without the server", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  await openCard(page, url);
  await page.locator(".card").getByRole("button", { name: "Approve", exact: true }).click();
  await expect(page.getByText("Result:")).toBeVisible();
  await page.getByRole("link", { name: "Audit log" }).click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export" }).click()]);
  expect(download.suggestedFilename()).toBe("countersign-audit.jsonl");
  await expect(page.getByText("Records saved: 3.")).toBeVisible();
  const file = (await download.path())!;
  const text = await readFile(file, "utf8");
  expect(text.split("\n")).toHaveLength(4);
  expect(text).toContain('"price":82000.10');
  expect(text).toContain('"order_ref":9007199254740993');
  const { stdout } = await run(binary(), ["audit", "verify", file]);
  expect(stdout).toContain("ok: 3 records; anchor 3:");
});

for (const [language, colorScheme] of APPEARANCES) {
  test.describe(`${language}, ${colorScheme}`, () => {
    test.use({ colorScheme });
    test("u1: the audit log is readable and accessible at two widths", async ({ page, serve }) => {
      const { url } = await serve({ turns: oneOrder });
      await begin(url, "s1");
      await approve(url, "s1_1");
      await page.addInitScript((l) => localStorage.setItem("countersign:language", l), language);
      await page.goto(`${url}/#/audit`);
      await expect(rows(page)).toHaveCount(3);
      await page.locator(".audit-tool button[type=submit]").click();
      await expect(page.locator(".audit-good")).toBeVisible();
      await rows(page).last().locator("summary").click();
      for (const width of [1280, 360]) {
        await page.setViewportSize({ width, height: 800 });
        await checkAccessible(page, `audit, ${language}, ${width}`);
        await hasNoSidewaysScroll(page);
        const wide = await page.locator(".rules").evaluate((box) => box.scrollWidth - box.clientWidth);
        expect(wide).toBe(0);
        if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/audit-${language}-${colorScheme}-${width}.png`, fullPage: true });
      }
    });
  });
}
