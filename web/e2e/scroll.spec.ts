/** Only the conversation and the list of sessions scroll, never the page around them. */
import { ask, call, expect, goal, order, send, test } from "./support/console.js";
import type { Turn } from "./support/server.js";

const long = Array.from({ length: 60 }, (_, i) => `Paragraph ${i + 1} of a long answer.`).join("\n\n");
const both: Turn = { ...call(order), calls: [...call(order).calls!, ...ask(goal).calls!] };
const turns: Turn[] = [
  { text: long, calls: [{ name: "lookup", args: '{"symbol":"VNM"}' }] },
  { text: long, calls: [{ name: "lookup", args: '{"symbol":"FPT"}' }] },
  both,
];

for (const [width, height] of [
  [1280, 800],
  [390, 844],
] as const) {
  test(`u1: going to a request leaves the page where it is, at ${width} pixels`, async ({ page, serve }) => {
    await page.setViewportSize({ width, height });
    const server = await serve({ turns });
    // A list of sessions that is longer than the screen.
    for (let i = 0; i < 30; i++) {
      await fetch(`${server.url}/v1/sessions`, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
    }
    await page.goto(server.url);
    await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
    await send(page);
    await expect(page.locator(".card")).toHaveCount(2);
    await expect(page.locator(".session-row")).toHaveCount(31);
    const overflow = () =>
      page.evaluate(() => {
        const { scrollHeight, scrollTop, clientHeight } = document.documentElement;
        return { over: scrollHeight - clientHeight, scrollTop };
      });
    expect(await overflow()).toEqual({ over: 0, scrollTop: 0 });
    await page.locator(".chat-scroll").evaluate((area) => area.scrollTo(0, 0));
    await page.getByRole("button", { name: "Go to the request" }).click();
    await expect(page.locator(".card").first()).toBeFocused();
    await expect(page.locator(".topbar")).toBeInViewport({ ratio: 1 });
    await expect(page.locator(".composer-dock")).toBeInViewport({ ratio: 1 });
    expect(await overflow()).toEqual({ over: 0, scrollTop: 0 });
  });
}
