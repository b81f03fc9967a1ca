/** Reloads, crashes, other tabs: what a person sees stays right. */
import type { Page } from "@playwright/test";
import { quietPort } from "./support/server.js";
import { expect, newSession, oneOrder, openCard, resolved, send, test } from "./support/console.js";

test("a reload keeps the card, the draft and the unsent edit", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  const card = await openCard(page, url);
  await card.getByRole("button", { name: "Edit" }).click();
  await card.getByLabel("quantity").fill("42");
  await page.getByLabel("Message to the agent").fill("half a thought");
  await page.reload();

  await expect(card.getByLabel("quantity")).toHaveValue("42");
  await expect(page.getByLabel("Message to the agent")).toHaveValue("half a thought");
  await expect(page.locator(".message.user")).toHaveCount(1);
  await expect(page.locator(".tool")).toHaveCount(1);
  await card.getByRole("button", { name: "Approve with changes" }).click();
  await expect(page.locator(".markdown").last()).toContainText('"quantity":42');
});

test("u1: of a reply that counted, a page that was reloaded before it knew does not say that it was not sent", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  let held = false;
  await page.routeWebSocket(/\/v1\/ws$/, (tab) => {
    const server = tab.connectToServer();
    server.onMessage((frame) => {
      if (!held) tab.send(frame);
    });
  });
  const card = await openCard(page, url);
  await card.getByRole("button", { name: "Reject" }).click();
  await card.getByLabel("Reason").fill("Too expensive today");
  held = true;
  await card.getByRole("button", { name: "Reject" }).click();
  const key = `${new URL(page.url()).hash.split("/").at(-1)}_1`;
  await expect.poll(async () => (await (await fetch(`${url}/v1/approvals/${key}`)).json()).status).toBe("resolved");
  held = false;
  // Before it is left, the page asks whether what is not known to be stored may be lost.
  page.on("dialog", (dialog) => void dialog.accept());
  await page.reload();
  await expect(resolved(page)).toContainText("Rejected: Too expensive today");
  // It says so a moment later, if it does.
  await expect(page.locator(".topbar")).toContainText("Finished");
  await page.waitForTimeout(500);
  await expect(page.locator(".late")).toHaveCount(0);
});

test("a finished session looks the same after a reload", async ({ page, serve }) => {
  const { url } = await serve({ turns: [{ thinking: "Let me think.", ...oneOrder[0] }, oneOrder[1]!] });
  const card = await openCard(page, url);
  await card.getByRole("button", { name: "Approve" }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
  const text = () => page.locator(".chat").innerText();
  const before = await text();
  await page.reload();
  await expect(page.locator(".topbar")).toContainText("Finished");
  await expect.poll(text).toBe(before);
});

test("the server crashes while a request waits: the console reconnects and the approval works", async ({
  page,
  serve,
  tolerate,
}) => {
  // The browser itself logs every refused connection.
  tolerate.push(/net::ERR_|WebSocket connection to/);
  const server = await serve({ turns: oneOrder, port: await quietPort() });
  const card = await openCard(page, server.url);
  await server.kill();
  await expect(page.locator(".connection-badge")).toHaveText("Reconnecting…");
  // Decided while the server is away: it is sent when it is back.
  await card.getByRole("button", { name: "Approve" }).click();
  await expect(card.getByText("Your decision will be sent when the connection is back.")).toBeVisible();
  await server.restart();

  await expect(resolved(page)).toContainText("Approved");
  await expect(page.locator(".markdown").last()).toContainText('"quantity":100');
  await expect(page.locator(".connection-badge")).toHaveCount(0);
  await expect(page.locator(".message.user")).toHaveCount(1);
  await expect(page.locator(".tool")).toHaveCount(1);
});

test("a decision in one tab closes the card in the other", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  const card = await openCard(page, url);
  const other = await context.newPage();
  await other.goto(page.url());
  await expect(other.locator(".card")).toBeVisible();
  await card.getByRole("button", { name: "Approve" }).click();
  await expect(resolved(other)).toContainText("Approved");
  await expect(other.locator(".card")).toHaveCount(0);
  await expect(other.locator(".markdown").last()).toContainText('"quantity":100');
});

test("two tabs decide at the same moment: one decision counts, both see it", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  const card = await openCard(page, url);
  const other = await context.newPage();
  await other.goto(page.url());
  await expect(other.locator(".card")).toBeVisible();
  await expect(card).toBeVisible();
  // Straight at the buttons: a real pointer takes so long that the second one would find no card.
  const press = (tab: Page, choice: string) =>
    tab.evaluate((c) => document.querySelector<HTMLElement>(`.card [data-choice=${c}]`)?.click(), choice);
  await Promise.all([press(page, "approve"), press(other, "approve")]);
  for (const tab of [page, other]) {
    await expect(resolved(tab)).toContainText("Approved");
    await expect(tab.locator(".markdown").last()).toContainText('"quantity":100');
  }
});

test("the inbox lists what waits in every session and leads there", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  await openCard(page, url);
  const first = page.url();
  await newSession(page);
  await send(page, "Sell everything");
  await expect(page.locator(".card")).toBeVisible();
  expect(page.url()).not.toBe(first);

  await expect(page).toHaveTitle("(2) Countersign");
  await page.getByRole("link", { name: "Inbox" }).click();
  const rows = page.locator(".inbox-row");
  await expect(rows).toHaveCount(2);
  await rows.first().getByRole("link").click();
  await expect(page.locator(".card")).toBeFocused();
  await page.locator(".inbox-asked").getByRole("link", { name: "Buy 100 VNM" }).click();
  await expect(page).toHaveURL(first);
  await expect(page.locator(".card")).toBeVisible();
});

test("a server that wants a token gets one, for this tab only", async ({ page, context, serve, tolerate }) => {
  tolerate.push(/401/, /WebSocket connection to/);
  const { url } = await serve({ turns: oneOrder, token: "s3cret-token" });
  await page.goto(url);
  const field = page.getByLabel("Access token");
  await field.fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("alert")).toContainText("does not accept");
  await field.fill("s3cret-token");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
  await page.reload();
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
  expect(page.url()).not.toContain("s3cret");
  const other = await context.newPage();
  await other.goto(url);
  await expect(other.getByLabel("Access token")).toBeVisible();
});
