/** What an MCP server asks in the middle of a call: forms and addresses. */
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { begin, checkAccessible, expect, hasNoSidewaysScroll, resolved, send, test } from "./support/console.js";
import { choose, press, withoutPointer, write } from "./support/keyboard.js";
import type { Server, ServerOptions, Turn } from "./support/server.js";
import { speak } from "./support/words.js";

const mcp = [process.execPath, join(import.meta.dirname, "support/mcp.mjs")];
const asks = (name: string): Turn[] => [{ calls: [{ name, args: "{}" }] }, { text: "It said {{ last_tool_result }}" }];

type Serve = (options: ServerOptions) => Promise<Server>;

for (const [language, width, colorScheme] of [
  ["vi", 1280, "light"],
  ["zh", 390, "dark"],
] as const) {
  test.describe(`${language}, ${width}, ${colorScheme}`, () => {
    test.use({ viewport: { width, height: 844 }, colorScheme });
    test("s13 u1: the form and the address of a server take no pointer, and are accessible in another language", async ({ page, serve }) => {
      const t = await speak(page, language);
      await withoutPointer(page);
      const { url } = await serve({ turns: [...asks("order"), ...asks("log_in")], mcp });
      await begin(url, "s1", "Order tea");
      await page.goto(`${url}/#/s/s1`);
      const card = page.locator(".card[data-kind=input]");
      const look = async (name: string) => {
        // The other width too.
        for (const shown of [width, width === 390 ? 1280 : 390]) {
          await page.setViewportSize({ width: shown, height: 844 });
          await checkAccessible(page, `${name}, ${language}, ${shown}`);
          await hasNoSidewaysScroll(page);
          if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/elicit-${name}-${language}-${shown}.png` });
        }
        await page.setViewportSize({ width, height: 844 });
      };
      await press(page, card.getByRole("button", { name: t("elicit.accept") }));
      await expect(card.getByLabel("Your name")).toBeFocused();
      await expect(card.locator(".field-error")).toHaveCount(2);
      await look("form");
      await write(page, card.getByLabel("Your name"), "Alice");
      await write(page, card.getByLabel("How many"), "3");
      await press(page, card.getByLabel("Sugar"), "Space");
      await choose(page, card.getByLabel("colour"), "Black");
      await press(page, card.getByRole("button", { name: t("elicit.accept") }), "Enter", { movedOn: true });
      await expect(resolved(page)).toContainText(t("elicit.accepted"));
      const said = page.locator(".message.assistant").last();
      for (const part of ['"amount":3', '"colour":"c2"', '["milk","sugar"]']) await expect(said).toContainText(part);

      await begin(url, "s1", "Order more");
      await expect(card.getByRole("link", { name: t("elicit.open") })).toBeVisible();
      await look("address");
      await press(page, card.getByRole("button", { name: t("elicit.decline"), exact: true }), "Enter", { movedOn: true });
      await expect(page.locator(".message.assistant").last()).toContainText('{"action":"decline"}');
    });
  });
}

async function open(page: Page, serve: Serve, turns: Turn[], more: Partial<ServerOptions> = {}) {
  const server = await serve({ turns, mcp, ...more });
  await page.goto(server.url);
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
  await send(page, "Order tea");
  const card = page.locator(".card[data-kind=input]");
  await expect(card).toBeVisible();
  return card;
}

test("s13: the form of an MCP server is filled in, checked before it is sent, and accepted", async ({ page, serve }) => {
  const card = await open(page, serve, asks("order"));
  await expect(card.getByRole("heading", { level: 2 })).toHaveText("The server “shop” asks you");
  await expect(card.locator(".server-says")).toContainText("The server “shop” says (not verified)");
  // Once, beside its words.
  await expect(card.locator(".facts-line")).not.toContainText("shop");
  await expect(card.locator(".server-words")).toContainText("Màu gì? 什么颜色?");
  await expect(card.locator(".facts-line")).toContainText("Tool: order");
  await expect(card.locator(".facts-line")).toContainText("Agent: trader");
  await expect(card).not.toContainText("Graph");
  await expect(card).toContainText("the server is told “cancel”");
  await checkAccessible(page, "the form of a server");

  // In the server's order, under its titles.
  const labels = await card.locator(".fields .label").allInnerTexts();
  expect(labels.map((l) => l.split(" ·")[0])).toEqual([
    "Your name", "How many", "Email", "Day", "As a gift", "Size", "colour", "Extras",
  ]);
  await card.getByRole("button", { name: "Accept and send" }).click();
  await expect(card.getByLabel("Your name")).toBeFocused();
  await expect(card.locator(".field-error")).toHaveCount(2);
  await card.getByLabel("Your name").fill("Alice");
  await card.getByLabel("How many").fill("11");
  await card.getByLabel("Email").fill("alice");
  await card.getByLabel("Sugar").check();
  await card.getByLabel("Lemon").check();
  const field = (text: string) => card.locator(".field", { hasText: text }).locator(".field-error");
  await expect(field("How many")).toHaveText("At most 10.");
  await expect(field("Email")).toHaveText("This is not an email address.");
  await expect(field("Extras")).toHaveText("Maximum number of entries: 2.");
  await checkAccessible(page, "a form with mistakes");

  await page.reload();
  await expect(card.getByLabel("Your name")).toHaveValue("Alice");
  await card.getByLabel("How many").fill("3");
  await card.getByLabel("Email").fill("alice@example.com");
  await card.getByLabel("Lemon").uncheck();
  await card.getByLabel("Day").fill("2026-01-31");
  await card.getByLabel("colour").selectOption({ label: "Black" });
  await card.getByLabel("Size").selectOption({ label: "Small" });
  await card.getByRole("button", { name: "Accept and send" }).click();
  await expect(resolved(page)).toContainText("Accepted shop");
  await expect(resolved(page).locator(".payload")).toContainText("alice@example.com");
  await expect(resolved(page).locator(".payload")).toContainText("How many");
  const said = page.locator(".message.assistant").last();
  await expect(said).toContainText('"action":"accept"');
  for (const part of ['"amount":3', '"colour":"c2"', '"size":"s"', '"day":"2026-01-31"', '"gift":false', '["milk","sugar"]']) {
    await expect(said).toContainText(part);
  }
});

for (const [button, action, word] of [
  ["Decline", "decline", "Declined"],
  ["Cancel", "cancel", "Cancelled"],
] as const) {
  test(`s13: a form is answered with ${action} without filling it in`, async ({ page, serve }) => {
    const card = await open(page, serve, asks("order"));
    await card.getByRole("button", { name: button, exact: true }).click();
    await expect(resolved(page)).toContainText(`${word} shop`);
    await expect(page.locator(".message.assistant").last()).toContainText(`{"action":"${action}"}`);
  });
}

test("s13: an address is shown whole with the host it leads to, and opened by nobody but a person", async ({ page, serve }) => {
  const card = await open(page, serve, asks("log_in"));
  await expect(card.getByRole("heading", { level: 2 })).toHaveText("The server “shop” asks you to open an address");
  await expect(card.locator(".address-text")).toHaveText(
    `https://shop.example@login.example/start?for=alice&long=${"a".repeat(60)}`,
  );
  await expect(card.locator(".address")).toContainText("It leads to: login.example");
  const link = card.getByRole("link", { name: "Open the address" });
  await expect(link).toHaveAttribute("rel", "noopener noreferrer");
  await expect(link).toHaveAttribute("target", "_blank");
  await expect(link).toHaveAttribute("href", /^https:\/\/shop\.example@login\.example\/start/);
  await checkAccessible(page, "an address");
  await page.setViewportSize({ width: 390, height: 844 });
  await hasNoSidewaysScroll(page);
  await card.getByRole("button", { name: "Done" }).click();
  await expect(resolved(page)).toContainText("Accepted shop");
  await expect(page.locator(".message.assistant").last()).toContainText('{"action":"accept"}');
});

test("s13: nobody is asked to open an address that is no web page's", async ({ page, serve }) => {
  const { url } = await serve({ turns: asks("odd"), mcp });
  await page.goto(url);
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
  await send(page, "Order tea");
  await expect(page.locator(".message.assistant").last()).toContainText('{"action":"cancel"}');
  await expect(page.locator(".card")).toHaveCount(0);
});

test("s13: a request for a server's tool says which server has it, and that the description is its word", async ({ page, serve }) => {
  const { url } = await serve({ turns: asks("order"), mcp, mcpAsks: "always" });
  await page.goto(url);
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
  await send(page, "Order tea");
  const card = page.locator(".card[data-kind=approval]");
  await expect(card.locator("[data-server]")).toHaveText("Server: shop");
  await expect(card).toContainText("The server “shop” says (not verified): order");
});
