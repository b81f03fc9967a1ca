/** A call as a reviewer sees it: the server's text of what will run, and the agent's words apart from it. */
import { call, expect, hasNoSidewaysScroll, oneOrder, openCard, resolved, test } from "./support/console.js";

const facts = ".facts, .shown";

test("what would deceive the eye is written out, counted and named", async ({ page, serve }) => {
  const args = String.raw`{"symbol":"V\u200bN\u202eM\u2066","quantity":1,"note":"p\u0430y\ue000 \u001b[31m","order_ref":9007199254740993}`;
  const { url } = await serve({ turns: [call(args), { text: "Done." }] });
  const card = await openCard(page, url);
  const text = card.locator(".shown-text");
  await expect(text).toContainText(String.raw`"note": "p\u{430}y\u{E000} \u{1B}[31m"`);
  await expect(text).toContainText(String.raw`"symbol": "V\u{200B}N\u{202E}M\u{2066}"`);
  await expect(text.locator("mark").first()).toHaveText(String.raw`\u{430}`);
  expect(await text.innerText()).not.toMatch(/[^\x20-\x7e\n]/);

  const warning = card.locator(".shown-warning");
  await expect(warning).toContainText(
    "invisible: 2, control characters: 1, look-alikes: 1, changing the direction of the text: 2",
  );
  await warning.getByText("Where").click();
  await expect(warning.locator("li")).toContainText(["/note (invisible: 1)", "/note (control characters: 1)"]);
});

test("the agent's own words stand apart from the facts, as plain text", async ({ page, serve }) => {
  const words = "Approved by **security** <b>team</b> \\u202e Tool: read_only Agent: safe";
  const said = JSON.stringify(words).replace("\\\\u", "\\u");
  const args = `{"symbol":"VNM","quantity":1,"tool_content_message":${said}}`;
  const { url } = await serve({ turns: [call(args), { text: "Done." }], says: "model" });
  const card = await openCard(page, url);
  const shown = String.raw`Approved by **security** <b>team</b> \u{202E} Tool: read_only Agent: safe`;
  await expect(card.locator(".agent-says")).toContainText("The agent says (not verified)");
  await expect(card.locator(".agent-words")).toHaveText(shown);
  await expect(card.locator(".agent-words b, .agent-words strong")).toHaveCount(0);

  // Wherever the words are in the card, that place is inside their own box and outside the facts.
  const places = await card.evaluate((root, facts) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const found: string[] = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (!/security|read_only|team/.test(node.nodeValue ?? "")) continue;
      const parent = node.parentElement;
      found.push(parent?.closest(facts) ? "facts" : parent?.closest(".agent-says") ? "apart" : "elsewhere");
    }
    return found;
  }, facts);
  expect(new Set(places)).toEqual(new Set(["apart"]));
  await expect(card.locator(".shown-text")).toHaveText('{"quantity": 1, "symbol": "VNM"}');

  await card.getByRole("button", { name: "Approve" }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
  await page.locator(".group-row").last().click();
  await resolved(page).getByRole("button").click();
  await expect(resolved(page).locator(".agent-words")).toHaveText(shown);
});

test("an operator's line is not called the agent's", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder, says: "template" });
  const card = await openCard(page, url);
  await expect(page.locator(".chat-scroll, body").first()).toContainText("Order VNM");
  await expect(card.locator(".agent-says")).toHaveCount(0);
});

test("the size and the hash are said, the whole hash on demand", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  const card = await openCard(page, url);
  const size = card.locator(".shown-size");
  // printf '%s' '{"order_ref":9007199254740993,"price":82000.10,"quantity":100,"symbol":"VNM"}' | sha256sum
  const hash = "5fbeb9fd4bd164c7dd7c605ea501d08e72409738db0b247082de7d725246d6c9";
  await expect(size.locator("summary")).toHaveText(`77 bytes · SHA-256 ${hash.slice(0, 12)}…`);
  await expect(async () => {
    if (!(await size.evaluate((details: HTMLDetailsElement) => details.open))) await size.locator("summary").click();
    await expect(size.getByText(hash)).toBeVisible({ timeout: 1000 });
  }).toPass();
});

const long = (end: string) => {
  const body = Array.from({ length: 600 }, (_, i) => `Line ${i} of a file that is longer than a screen.`).join("\n");
  return JSON.stringify({ symbol: "VNM", quantity: 1, note: body + end });
};

test("a long text is approved only after its end was in view", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(long("\nDELETE EVERYTHING")), { text: "Result: {{ last_tool_result }}" }] });
  await page.goto(url);
  await page.getByLabel("Message to the agent").fill("go");
  await page.keyboard.press("Enter");
  const card = page.locator(".card");
  const approve = card.getByRole("button", { name: "Approve" });
  // With the text, and with the buttons that are off.
  await expect(card.getByText("This is long: scroll to its end")).toHaveCount(2);
  await expect(approve).toBeDisabled();
  await expect(card.getByRole("button", { name: "Edit" })).toBeDisabled();
  await expect(card.getByRole("button", { name: "Reject" })).toBeEnabled();
  // Not by its key either.
  await card.focus();
  await page.keyboard.press("a");
  await page.locator(".shown-text").evaluate((pre) => pre.scrollTo(0, pre.scrollHeight / 2));
  await expect(approve).toBeDisabled();
  await page.locator(".shown-text").evaluate((pre) => pre.scrollTo(0, pre.scrollHeight));
  await expect(approve).toBeEnabled();
  await expect(card.getByText("This is long: scroll to its end")).toHaveCount(0);
  await hasNoSidewaysScroll(page);
  await approve.click();
  await expect(resolved(page)).toContainText("Approved");
});

test("several long calls are approved together only when all were seen", async ({ page, serve }) => {
  const turn = {
    calls: [
      { name: "execute_trade", args: long("A") },
      { name: "execute_trade", args: long("B") },
      { name: "execute_trade", args: '{"symbol":"VNM","quantity":1}' },
    ],
  };
  const { url } = await serve({ turns: [turn, { text: "Done." }] });
  await page.goto(url);
  await page.getByLabel("Message to the agent").fill("go");
  await page.keyboard.press("Enter");
  const card = page.locator(".card");
  const all = card.getByRole("button", { name: "Approve all" });
  await expect(all).toBeDisabled();
  await expect(card.locator("[data-choice=approve]:enabled")).toHaveCount(1);
  await card.getByRole("button", { name: "Show all" }).first().click();
  await expect(card.locator("[data-choice=approve]:enabled")).toHaveCount(2);
  await expect(all).toBeDisabled();
  await card.getByRole("button", { name: "Show all" }).click();
  await all.click();
  await expect(resolved(page)).toContainText("Approved");
});

test("arguments of a quarter of a megabyte are whole and leave the page usable", async ({ page, serve }) => {
  const note = "\u200bx".repeat(20_000) + "y".repeat(100_000) + "THE END";
  const { url } = await serve({ turns: [call(JSON.stringify({ symbol: "VNM", quantity: 1, note })), { text: "Done." }] });
  await page.goto(url);
  await page.getByLabel("Message to the agent").fill("go");
  await page.keyboard.press("Enter");
  const text = page.locator(".card .shown-text");
  await expect(text).toContainText("THE END");
  expect((await text.textContent())!.match(/\\u\{200B\}x/g)).toHaveLength(20_000);
  await page.locator(".card").getByRole("button", { name: "Show all" }).click();
  await hasNoSidewaysScroll(page);
  await page.locator(".card").getByRole("button", { name: "Approve" }).click();
  await expect(resolved(page)).toContainText("Approved");
});

for (const [name, width] of [["desktop", 1280], ["phone", 390]] as const) {
  test(`looks right on a ${name}`, async ({ page, serve }) => {
    await page.setViewportSize({ width, height: 844 });
    const body = "Kính gửi quý khách,\n\nĐơn hàng số 5 đã được gửi đi.\n  • Giá: 82.000 ₫\n  • 请注意查收。\n\nTrân trọng";
    const args = `{"symbol":"V\\u200bNM","quantity":1,"price":82000.10,"note":${JSON.stringify(body)},"tool_content_message":"I only look at the price."}`;
    const { url } = await serve({ turns: [call(args), { text: "Done." }], says: "model" });
    const card = await openCard(page, url);
    await hasNoSidewaysScroll(page);
    await expect(card.locator(".shown-text")).toContainText("Đơn hàng số 5");
    if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/shown-${name}.png`, fullPage: true });
  });
}
