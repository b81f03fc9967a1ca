/** Draws the console's pictures for the documentation, from the real thing. Only on request. */
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { ask, goal, horizon, openCard, openQuestion, sectors, test } from "./support/console.js";
import type { Turn } from "./support/server.js";

test.skip(!process.env.PICTURES, "only with PICTURES=1");

const folder = join(import.meta.dirname, "../../docs/images");
const picture = async (page: Page, name: string) => {
  await page.mouse.move(0, 0);
  await page.waitForTimeout(500);
  await page.screenshot({ path: join(folder, `console-${name}.png`) });
};

const turns: Turn[] = [
  {
    thinking: "The user wants to buy. I look at the price first, then place the order and wait for approval.",
    text: "I will look up the price of **VNM** first.",
    calls: [{ name: "lookup", args: '{"symbol":"VNM"}' }],
  },
  {
    text: "VNM trades at 82,000.10 VND. I would place this order:",
    calls: [
      {
        name: "execute_trade",
        args: '{"symbol":"VNM","quantity":100,"price":82000.10,"order_ref":9007199254740993,"note":"pension fund"}',
      },
    ],
  },
  { text: "The order is placed. Is there anything else?" },
];

test("approval", async ({ page, serve }) => {
  const { url } = await serve({ turns });
  await openCard(page, url);
  await picture(page, "approval");
});

test("questions", async ({ page, serve }) => {
  const plan = ["completed", "in_progress", "pending"].map((status, i) => ({
    content: ["Ask what the savings are for", "Compare funds", "Write a proposal"][i],
    status,
  }));
  const { url } = await serve({
    turns: [
      { thinking: "I need to know more first.", calls: [{ name: "write_todos", args: JSON.stringify({ todos: plan }) }] },
      ask(goal),
      { calls: [{ name: "price", args: '{"symbol":"VNM"}' }, { name: "price", args: '{"symbol":"FPT"}' }] },
      ask(horizon, sectors),
    ],
  });
  const card = await openQuestion(page, url);
  await card.getByRole("radio", { name: "Steady dividends" }).check();
  await card.getByRole("button", { name: "Send answer" }).click();
  await card.getByRole("radio", { name: "Over 3 years" }).check();
  await picture(page, "question");
});
