/** A server that restarts under open tabs, decisions made in a terminal; and all of it by the keyboard alone. */
import type { Locator, Page } from "@playwright/test";
import { begin, call, expect, neverByItself, oneOrder, order, test } from "./support/console.js";
import { tabTo } from "./support/keyboard.js";
import { quietPort, terminal } from "./support/server.js";

test("u1 r5: a server that restarts under open tabs loses nothing in any of them, and a decision made then counts once", async ({ context, serve, tolerate }) => {
  tolerate.push(/WebSocket|Failed to load resource|ERR_CONNECTION/);
  const server = await serve({ turns: oneOrder, timeout: 3000, port: await quietPort() });
  await begin(server.url, "s1");
  await begin(server.url, "s2");
  const at = ["#/", "#/inbox", "#/s/s1", "#/s/s2", "#/audit"];
  const tabs = await Promise.all(
    at.map(async (hash) => {
      const tab = await context.newPage();
      await tab.goto(`${server.url}/${hash}`);
      return tab;
    }),
  );
  const [home, inbox, first, second, audit] = tabs as [Page, Page, Page, Page, Page];
  await expect(first.locator(".card")).toBeVisible();
  await expect(second.locator(".card")).toBeVisible();
  await expect(inbox.locator(".inbox-row")).toHaveCount(2);
  await expect(audit.locator(".audit-row")).toHaveCount(2);
  await home.getByLabel("Message to the agent").fill("half a thought");

  await server.kill();
  for (const tab of tabs) await expect(tab.locator(".connection-badge")).toBeVisible();
  // Decided while no server is running: it is sent once there is one.
  await first.locator(".card").getByRole("button", { name: "Approve", exact: true }).click();
  await server.restart();
  for (const tab of tabs) await expect(tab.locator(".connection-badge")).toHaveCount(0, { timeout: 60_000 });
  await expect(first.locator(".markdown").last()).toContainText("9007199254740993");
  await expect(second.locator(".card")).toBeVisible();
  await expect(inbox.locator(".inbox-row")).toHaveCount(1);
  await expect(home.getByLabel("Message to the agent")).toHaveValue("half a thought");
  await second.locator(".card").getByRole("button", { name: "Approve", exact: true }).click();
  await expect(second.locator(".markdown").last()).toContainText("9007199254740993");
  await expect(inbox.locator(".inbox-row")).toHaveCount(0);
  await audit.getByRole("button", { name: "Refresh" }).click();
  await expect(audit.locator(".audit-row").filter({ hasText: "Approved" })).toHaveCount(2);
});

/** Waits until the page has read the pending requests again. */
async function readAgain(page: Page): Promise<void> {
  const request = await page.waitForRequest(/\/v1\/approvals\?status=waiting/);
  await request.response();
}

test("u1 u3: what is decided in a terminal is seen in the browser at once: on the card, in the list, and in the inbox", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: oneOrder, timeout: 3000 });
  await begin(url, "s1");
  await begin(url, "s2");
  await page.goto(`${url}/#/s/s1`);
  await expect(page.locator(".card")).toBeVisible();
  const inbox = await context.newPage();
  await inbox.goto(`${url}/#/inbox`);
  await expect(inbox.locator(".inbox-row")).toHaveCount(2);

  await terminal(url, "approvals", "approve", "s1_1");
  await expect(page.locator(".card")).toHaveCount(0);
  await expect(page.locator(".markdown").last()).toContainText("9007199254740993");
  await expect(inbox.locator(".inbox-row")).toHaveCount(1);
  // Without a tab that follows the session, too: once the list is read again, which it is each second.
  await page.close();
  await terminal(url, "approvals", "reject", "s2_1", "--reason", "too dear");
  await readAgain(inbox);
  await expect(inbox.locator(".inbox-row")).toHaveCount(0);
  await expect(inbox.locator(".sidebar .count")).toHaveCount(0);
  // And with a new request.
  await begin(url, "s3");
  await readAgain(inbox);
  await expect(inbox.locator(".inbox-row")).toHaveCount(1);
});

// Lists are read each second, less often if they are long or the page is hidden: here only because the person returns.
for (const [back, event] of [
  ["into view", () => document.dispatchEvent(new Event("visibilitychange"))],
  ["from another window", () => window.dispatchEvent(new Event("focus"))],
] as const) {
  test(`u1: whoever comes back ${back} is told at once what happened meanwhile`, async ({ page, serve }) => {
    const { url } = await serve({ turns: oneOrder, timeout: 3000 });
    await begin(url, "s1");
    await neverByItself(page);
    await page.addInitScript(() => Object.defineProperty(document, "hidden", { get: () => !sessionStorage.getItem("seen") }));
    await page.goto(`${url}/#/inbox`);
    await expect(page.locator(".inbox-row")).toHaveCount(1);
    // Whatever was asked for when the page was opened has come.
    await page.waitForLoadState("networkidle");
    await begin(url, "s2");
    await page.evaluate(() => sessionStorage.setItem("seen", "yes"));
    await page.evaluate(event);
    await expect(page.locator(".inbox-row")).toHaveCount(2);
  });
}

// ---------------------------------------------------------------- the keyboard alone

/** Come to something and press a key there, also if something else takes the focus in between. */
async function pressAt(page: Page, to: Locator, key = "Enter"): Promise<void> {
  await tabTo(page, to);
  await to.press(key);
}

test("u1: a session is forked by the keyboard alone", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder, timeout: 3000 });
  await begin(url, "s1");
  await page.goto(`${url}/#/s/s1`);
  await expect(page.locator(".card")).toBeVisible();
  const points = page.getByRole("button", { name: "Earlier points" });
  await pressAt(page, points);
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("listitem")).not.toHaveCount(0);
  // Escape leads back to where one came from.
  await page.keyboard.press("Escape");
  await expect(dialog).toBeHidden();
  await expect(points).toBeFocused();
  await points.press("Enter");
  await pressAt(page, dialog.getByRole("listitem").filter({ hasText: "1 waiting" }).getByRole("button", { name: /Continue from here as a new session/ }));
  await expect(page).not.toHaveURL(/#\/s\/s1$/);
  await expect(page.locator(".card")).toBeVisible();
});

test("u1: a standing rule is made and revoked by the keyboard alone", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(order), { text: "Done." }], timeout: 3000 });
  await begin(url, "s1");
  await page.goto(`${url}/#/s/s1`);
  await pressAt(page, page.locator(".card").getByRole("button", { name: "Make a rule…" }));
  await pressAt(page, page.getByRole("radio", { checked: true }), "ArrowDown");
  await pressAt(page, page.locator(".always button.primary"));
  await expect(page.locator(".card")).toHaveCount(0);
  // The line that replaces the card takes the focus, and at the end of the turn the group's line does.
  await expect(page.locator(".topbar")).toContainText("Finished");
  await expect(page.locator(".group-row:focus, .resolved-row:focus")).toHaveCount(1);
  await pressAt(page, page.locator(".sidebar").getByRole("link", { name: "Standing rules" }));
  await pressAt(page, page.locator(".rule").getByRole("button", { name: /^Revoke/ }));
  await expect(page.getByText("There are no standing rules.")).toBeVisible();
  // The focus is where the rule was, not lost.
  await expect(page.locator(".rules-list")).toBeFocused();
});

test("u1: an image is attached and taken away by the keyboard alone", async ({ page, serve }) => {
  const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==";
  const image = (name: string) => ({ name, mimeType: "image/png", buffer: Buffer.from(dot, "base64") });
  const { url } = await serve({ turns: [{ text: "A dot." }] });
  await page.goto(url);
  const [picker] = await Promise.all([page.waitForEvent("filechooser"), pressAt(page, page.getByRole("button", { name: "Attach images" }))]);
  await picker.setFiles([image("a.png"), image("b.png")]);
  const attached = page.getByRole("list", { name: "Attached images" });
  await expect(attached.getByRole("listitem")).toHaveCount(2);
  await pressAt(page, attached.getByRole("button", { name: "Remove image 2" }));
  await expect(attached.getByRole("listitem")).toHaveCount(1);
  const field = page.getByLabel("Message to the agent");
  await tabTo(page, field);
  await field.pressSequentially("What is this?");
  await field.press("Enter");
  await expect(page.locator(".message.user").getByRole("img", { name: "Image 1" })).toBeVisible();
  await expect(page.getByText("A dot.")).toBeVisible();
  // It is made larger, too.
  await pressAt(page, page.locator(".message.user").getByRole("button"));
  await expect(page.locator(".message.user").getByRole("button")).toHaveAttribute("aria-expanded", "true");
});
