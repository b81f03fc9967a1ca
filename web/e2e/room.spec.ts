/** That nothing is hidden by what stays in view, cut by the page's edge, or left out on paper. */
import { begin, call, expect, hasNoSidewaysScroll, oneOrder, openCard, order, send, test } from "./support/console.js";

const long = JSON.stringify({ symbol: "VNM", quantity: 1, note: Array.from({ length: 300 }, (_, i) => `Line ${i} of a note that is longer than a screen.`).join("\n") });

test("u1: a phone shows the agent's table with its numbers whole, and scrolls it sideways", async ({ page, serve }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  const cells = ["VNM", "82,000.10", "1,234,567,890", "9,007,199,254,740,993", "12,345,678"];
  const text = `|${cells.map((_, i) => `Column${i}`).join("|")}|\n|${cells.map(() => "--").join("|")}|\n|${cells.join("|")}|`;
  const { url } = await serve({ turns: [{ text }] });
  await page.goto(url);
  await send(page, "Show the table");
  const table = page.locator(".table-scroll");
  await expect(table.locator("td")).toHaveText(cells);
  for (const cell of await table.locator("td").all()) {
    // A range has a box for each line.
    const lines = await cell.evaluate((td) => {
      const range = document.createRange();
      range.selectNodeContents(td);
      return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
    });
    expect(lines).toBe(1);
  }
  expect(await table.evaluate((box) => box.scrollWidth > box.clientWidth)).toBe(true);
  await hasNoSidewaysScroll(page);
});

test("u1: nothing is seen below the buttons that stay in view, in the inbox too", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(long)], timeout: 3000 });
  await begin(url, "s1");
  await page.goto(`${url}/#/inbox?open=s1_1`);
  const bar = page.locator(".action > .buttons");
  await expect(bar).toBeVisible();
  const below = () => page.locator(".inbox-pane").evaluate((pane) => pane.getBoundingClientRect().bottom - pane.querySelector(".action > .buttons")!.getBoundingClientRect().bottom);
  // Its end is further down.
  expect(await page.locator(".inbox-pane").evaluate((pane) => pane.scrollHeight > pane.clientHeight + 100)).toBe(true);
  expect(Math.abs(await below())).toBeLessThanOrEqual(1);
});

for (const [width, height] of [
  [640, 400],
  [844, 390],
] as const) {
  test(`u1: on a page ${width} wide and ${height} high the field that is edited is in view`, async ({ page, serve }) => {
    await page.setViewportSize({ width, height });
    const { url } = await serve({ turns: oneOrder });
    const card = await openCard(page, url);
    await card.getByRole("button", { name: "Edit" }).click();
    const field = card.getByLabel("symbol");
    await expect(field).toBeFocused();
    // All of it, and nothing over it.
    const seen = () =>
      field.evaluate((input) => {
        const { left, top, bottom } = input.getBoundingClientRect();
        return [top + 1, bottom - 1].every((y) => document.elementFromPoint(left + 20, y) === input);
      });
    await expect.poll(seen).toBe(true);
    await expect(card.locator(".action > .buttons")).toHaveCSS("position", "static");
    await hasNoSidewaysScroll(page);
  });
}

test("u1: how sending goes is said in view, beside the buttons that were pressed", async ({ page, serve, tolerate }) => {
  tolerate.push(/WebSocket connection|Failed to load resource|ERR_CONNECTION/);
  // Its end is below the screen.
  const server = await serve({ turns: [call(order)], timeout: 3000, says: "template" });
  await page.setViewportSize({ width: 1280, height: 520 });
  await begin(server.url, "s1");
  await page.goto(`${server.url}/#/inbox?open=s1_1`);
  const approve = page.locator(".card [data-choice=approve]");
  await expect(approve).toBeEnabled();
  await server.kill();
  await expect(page.locator(".connection-badge").first()).toBeVisible();
  await approve.click();
  await expect(page.getByText("Not connected. Your decision will be sent")).toBeInViewport({ ratio: 1 });
  await expect(approve).toBeDisabled();
});

test("u1: why a long call cannot be approved yet is said in view, beside the buttons that are off", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(long)], timeout: 3000 });
  await page.setViewportSize({ width: 390, height: 844 });
  await begin(url, "s1");
  await page.goto(`${url}/#/s/s1`);
  const approve = page.locator(".card [data-choice=approve]");
  await expect(approve).toBeDisabled();
  await expect(approve).toHaveAccessibleDescription(/scroll to its end/);
  await expect(page.locator(".buttons .hint.warn")).toBeInViewport({ ratio: 1 });
  await page.getByRole("button", { name: "Show all" }).click();
  await expect(approve).toBeEnabled();
  await expect(page.locator(".buttons .hint.warn")).toHaveCount(0);
});

test("u1: the whole of a page is printed, without what leads elsewhere", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(long)], timeout: 3000 });
  await begin(url, "s1");
  for (const [hash, whole] of [
    ["#/s/s1", ".chat-scroll"],
    ["#/inbox?open=s1_1", ".inbox-pane"],
    ["#/audit", ".rules"],
  ] as const) {
    await page.emulateMedia({ media: "screen" });
    await page.goto(`${url}/${hash}`);
    await expect(page.locator(hash === "#/audit" ? ".audit-row" : ".shown-text").first()).toBeVisible();
    await page.emulateMedia({ media: "print" });
    for (const gone of [".sidebar", ".composer-dock", ".inbox-head", ".card .buttons"]) await expect(page.locator(gone).filter({ visible: true })).toHaveCount(0);
    for (const part of ["body", ".main", whole, ...(hash === "#/audit" ? [] : [".shown-text"])]) {
      // Nothing of it is scrolled, and so none cut off.
      expect(await page.locator(part).first().evaluate((e) => [getComputedStyle(e).overflowY, e.scrollHeight - e.clientHeight < 2]), `${hash} ${part}`).toEqual(["visible", true]);
    }
    expect(await page.locator(".action > .buttons, .card-foot, .inbox-pane-head").filter({ visible: true }).count()).toBe(0);
  }
});
