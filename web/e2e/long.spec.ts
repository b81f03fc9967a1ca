/** A session of a thousand exchanges opens like a short one: what is drawn does not grow with it. */
import { begin, call, checkAccessible, expect, order, send, test } from "./support/console.js";

const EXCHANGES = 1000;
const answer = (n: number) => `Answer **${n}**: the price moved by ${n} points.\n\n- one\n- two`;

test("u3: a thousand exchanges open with their end drawn, and the rest comes on scrolling up", async ({ page, serve }) => {
  test.setTimeout(400_000);
  const turns = Array.from({ length: EXCHANGES + 1 }, (_, i) => ({ text: answer(i + 1) }));
  const { url } = await serve({ turns });
  for (let n = 1; n <= EXCHANGES; n++) await begin(url, "long", `Question ${n}`);

  // The page first, so that only the session is measured.
  await page.goto(url);
  await expect(page.locator(".session-link, .sidebar a").filter({ hasText: "Question 1" }).first()).toBeVisible();
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable");
  // What the page loads of the session: frames, and answers to requests for earlier events.
  const came = { frames: 0, bytes: 0, earlier: 0 };
  await cdp.send("Network.enable");
  cdp.on("Network.webSocketFrameReceived", ({ response }) => ((came.frames += 1), (came.bytes += response.payloadData.length)));
  page.on("request", (request) => (came.earlier += request.url().includes("before=") ? 1 : 0));
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
  const heap = metrics.find((m) => m.name === "JSHeapUsedSize")!.value;
  console.log(
    `a session of ${EXCHANGES} exchanges: drawn after ${Math.round(opened)} ms, ${worked.toFixed(2)} s of work, ` +
      `${(heap / 1e6).toFixed(1)} MB of heap, ${came.frames} frames of ${came.bytes} bytes`,
  );
  // A third of a second on the machine of docs/scale.md, which also says how long it took; another may be some times slower.
  expect(worked).toBeLessThan(3);
  expect(heap).toBeLessThan(30e6);
  // Of the end alone: 80 messages of the 2000.
  expect(came.frames).toBeLessThan(1000);
  expect(came.bytes).toBeLessThan(200_000);
  expect(came.earlier).toBe(0);
  const drawn = page.locator(".chat > .message");
  await expect(drawn).toHaveCount(40);
  await expect(page.locator(".markdown").last()).toBeInViewport();
  await checkAccessible(page, "the end of a long session");

  // Scrolling up draws more, and the text being read stays in place.
  const area = page.locator(".chat-scroll");
  const first = page.locator(".bubble").filter({ hasText: new RegExp(`^Question ${EXCHANGES - 19}$`) });
  await expect(drawn.first()).toContainText(`Question ${EXCHANGES - 19}`);
  await area.evaluate((box) => box.scrollTo(0, 300));
  await expect(drawn).toHaveCount(80);
  const place = await first.evaluate((e) => e.getBoundingClientRect().top);
  const [least, most] = await area.evaluate((box) => [box.getBoundingClientRect().top - 300, box.getBoundingClientRect().bottom]);
  expect(place).toBeGreaterThanOrEqual(least!);
  expect(place).toBeLessThanOrEqual(most!);
  await expect.poll(() => came.earlier).toBe(1);
  await area.evaluate((box) => box.scrollTo(0, 100));
  await expect(drawn).toHaveCount(120);
  await expect(drawn.first()).toContainText(`Question ${EXCHANGES - 59}`);

  // By the keyboard too.
  const earlier = page.locator("button.chat-earlier");
  await earlier.focus();
  await expect.poll(() => drawn.count()).toBeGreaterThanOrEqual(120);
  const count = await drawn.count();
  await earlier.press("Enter");
  await expect.poll(() => drawn.count()).toBeGreaterThan(count);

  // Each message once and in its place.
  while ((await drawn.count()) < 400) {
    const before = await drawn.count();
    await earlier.press("Enter");
    await expect.poll(() => drawn.count()).toBeGreaterThan(before);
  }
  const questions = await page.locator(".message.user .bubble").allTextContents();
  expect(questions).toEqual(questions.map((_, i) => `Question ${EXCHANGES - questions.length + 1 + i}`));

  // New messages at the end do not move it; jumping to the end leaves the rest behind.
  await page.getByRole("button", { name: "Jump to the newest" }).click();
  await expect(page.locator(".markdown").last()).toBeInViewport();
  await send(page, "One more");
  await expect(page.getByText(`Answer ${EXCHANGES + 1}:`)).toBeInViewport();
  await expect(drawn).toHaveCount(40);
});

// On the taller screen all that is drawn fits, so that it is the end and the start at once.
for (const height of [800, 9000]) {
  test(`u3: what came before the end of a session is there once it is looked for, ${height} pixels high`, async ({ page, serve }) => {
    const args = JSON.stringify({ todos: [{ content: "Read the report", status: "in_progress" }] });
    const answers = Array.from({ length: 59 }, (_, i) => ({ text: answer(i + 1) }));
    const { url } = await serve({ turns: [{ calls: [{ name: "write_todos", args }] }, ...answers, call(order)] });
    for (let n = 1; n <= 60; n++) await begin(url, "longer", `Question ${n}`);
    await page.goto(`${url}#/s/longer`);
    await expect(page.locator(".card").getByRole("button", { name: "Approve", exact: true })).toBeEnabled();
    await expect(page.getByRole("heading", { name: "Question 1", exact: true })).toBeVisible();
    // The list that the agent wrote long before.
    await expect(page.locator(".todo-dock-now")).toHaveText("Read the report");

    // Its earlier points are shown with the conversation before them, back to the first.
    await page.getByRole("button", { name: "Earlier points" }).click();
    const past = page.getByRole("dialog");
    const more = past.getByRole("button", { name: "Show more" });
    await expect(past.locator(".past-point").first()).toBeVisible();
    while (await more.isVisible()) {
      const before = await past.locator(".past-point").count();
      await more.click();
      await expect.poll(() => past.locator(".past-point").count()).toBeGreaterThan(before);
    }
    await expect(past.locator(".past-point").nth(-2)).toContainText("Question 1");
    await page.keyboard.press("Escape");

    // All of it, each message once and in its place; then there is no more.
    await page.setViewportSize({ width: 1280, height });
    const questions = page.locator(".message.user .bubble");
    const earlier = page.locator("button.chat-earlier");
    while (await earlier.isVisible()) {
      const before = await questions.count();
      // Near the edge the page reads earlier messages on its own, which may remove the button meanwhile; a press that took too long
      // is repeated.
      await expect(async () => {
        await earlier.press("Enter", { timeout: 1000 }).catch(() => {});
        expect((await questions.count()) > before || !(await earlier.isVisible())).toBe(true);
      }).toPass();
    }
    expect(await questions.allTextContents()).toEqual(Array.from({ length: 60 }, (_, i) => `Question ${i + 1}`));
  });
}
