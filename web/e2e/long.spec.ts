/** A session of a thousand exchanges opens like a short one: what is drawn does not grow with it. */
import { begin, checkAccessible, expect, send, test } from "./support/console.js";

const EXCHANGES = 1000;
const answer = (n: number) => `Answer **${n}**: the price moved by ${n} points.\n\n- one\n- two`;

test("u3: a thousand exchanges open with their end drawn, and the rest comes on scrolling up", async ({ page, serve }) => {
  test.setTimeout(400_000);
  const turns = Array.from({ length: EXCHANGES + 1 }, (_, i) => ({ text: answer(i + 1) }));
  const { url } = await serve({ turns });
  for (let n = 1; n <= EXCHANGES; n++) await begin(url, "long", `Question ${n}`);

  // The page first, so that what is measured is the session.
  await page.goto(url);
  await expect(page.locator(".session-link, .sidebar a").filter({ hasText: "Question 1" }).first()).toBeVisible();
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable");
  // Of processors, so that it is the page's work and not that of others on this machine.
  const system = await page.context().browser()!.newBrowserCDPSession();
  const work = async () => (await system.send("SystemInfo.getProcessInfo")).processInfo.reduce((sum, one) => sum + (one.type === "renderer" ? one.cpuTime : 0), 0);
  const idle = await work();
  const opened = await page.evaluate(async (last) => {
    const began = performance.now();
    location.hash = "#/s/long";
    while (![...document.querySelectorAll(".markdown")].at(-1)?.textContent?.includes(last)) await new Promise(requestAnimationFrame);
    return performance.now() - began;
  }, `Answer ${EXCHANGES}:`);
  const worked = (await work()) - idle;
  await cdp.send("HeapProfiler.collectGarbage");
  const { metrics } = await cdp.send("Performance.getMetrics");
  const heap = metrics.find((m) => m.name === "JSHeapUsedSize")!.value / 1024 / 1024;
  console.log(`a session of ${EXCHANGES} exchanges: drawn after ${Math.round(opened)} ms, ${worked.toFixed(2)} s of work, ${heap.toFixed(1)} MiB of heap`);
  expect(heap).toBeLessThan(30);
  const drawn = page.locator(".chat > .message");
  await expect(drawn).toHaveCount(40);
  await expect(page.locator(".markdown").last()).toBeInViewport();
  await checkAccessible(page, "the end of a long session");

  // Scrolling up draws more, and what is read stays where it is.
  const area = page.locator(".chat-scroll");
  const first = page.locator(".bubble").filter({ hasText: new RegExp(`^Question ${EXCHANGES - 19}$`) });
  await expect(drawn.first()).toContainText(`Question ${EXCHANGES - 19}`);
  await area.evaluate((box) => box.scrollTo(0, 300));
  await expect(drawn).toHaveCount(80);
  const place = await first.evaluate((e) => e.getBoundingClientRect().top);
  const [least, most] = await area.evaluate((box) => [box.getBoundingClientRect().top - 300, box.getBoundingClientRect().bottom]);
  expect(place).toBeGreaterThanOrEqual(least!);
  expect(place).toBeLessThanOrEqual(most!);
  await area.evaluate((box) => box.scrollTo(0, 100));
  await expect(drawn).toHaveCount(120);

  // By the keyboard too.
  await page.getByRole("button", { name: /^Earlier: / }).focus();
  await expect.poll(() => drawn.count()).toBeGreaterThanOrEqual(120);
  const count = await drawn.count();
  await page.getByRole("button", { name: /^Earlier: / }).press("Enter");
  await expect.poll(() => drawn.count()).toBeGreaterThan(count);

  // What comes at the end does not move it; going there leaves the rest behind.
  await page.getByRole("button", { name: "Jump to the newest" }).click();
  await expect(drawn).toHaveCount(40);
  await send(page, "One more");
  await expect(page.getByText(`Answer ${EXCHANGES + 1}:`)).toBeInViewport();
  await expect(drawn).toHaveCount(40);
});
