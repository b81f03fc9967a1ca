/** Draws the moving picture of the README, from the real thing: an approval that outlives its server. Only on request. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { expect, openCard, test } from "./support/console.js";
import { animated } from "./support/apng.js";

test.skip(!process.env.PICTURES, "only with PICTURES=1");
test.use({ viewport: { width: 960, height: 640 }, tolerate: [/WebSocket|Failed to load resource|ERR_CONNECTION/] });

const FILE = join(import.meta.dirname, "../../docs/images/approval.png");
/** No larger than a visitor waits for. */
const BYTES = 1_500_000;

/** A line below the page that says what happens. Set as properties: the page allows no inline styles. */
async function say(page: Page, text: string): Promise<void> {
  await page.evaluate((text) => {
    const old = document.getElementById("caption");
    const line = old ?? document.body.appendChild(Object.assign(document.createElement("div"), { id: "caption" }));
    line.textContent = text;
    Object.assign(line.style, {
      position: "fixed",
      inset: "auto 0 0 0",
      zIndex: "1000",
      padding: "14px",
      font: "600 20px system-ui, sans-serif",
      textAlign: "center",
      color: "white",
      background: "#16324f",
    });
  }, text);
}

test("an approval outlives its server", async ({ page, serve }) => {
  const server = await serve({
    turns: [
      {
        text: "VNM trades at 82,000.10 VND. I would place this order:",
        calls: [{ name: "execute_trade", args: '{"symbol":"VNM","quantity":100,"price":82000.10,"note":"pension fund"}' }],
      },
      { text: "The order is placed: 100 VNM at 82,000.10 VND." },
    ],
  });
  const frames: { png: Buffer; ms: number }[] = [];
  const frame = async (text: string, ms: number) => {
    await say(page, text);
    await page.mouse.move(0, 0);
    await page.waitForTimeout(400);
    frames.push({ png: await page.screenshot({ animations: "disabled" }), ms });
  };
  const card = await openCard(page, server.url);
  await frame("The agent wants to trade. A person decides, about exactly these arguments.", 3500);
  await server.kill();
  await expect(page.locator(".topbar")).toContainText("Reconnecting");
  await frame("The server is killed, with kill -9.", 2500);
  await server.restart();
  await expect(card.getByRole("button", { name: "Approve" }).first()).toBeEnabled();
  await frame("It is started again. The request is still there.", 3000);
  await card.getByRole("button", { name: "Approve", exact: true }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
  await frame("Approved: it runs, once. Who decided is in the audit log.", 4500);

  const picture = animated(frames);
  expect(picture.length).toBeLessThan(BYTES);
  await writeFile(FILE, picture);
});
