/** Arguments for people: a table before anybody edits, forms for what is nested, and the exact text beside both. */
import { ARGS, TITLES, withBook } from "./support/book.js";
import { call, checkAccessible, expect, hasNoSidewaysScroll, resolved, test } from "./support/console.js";
import type { Turn } from "./support/server.js";
import { placesOf, type Language } from "./support/words.js";

async function openBook(page: import("@playwright/test").Page, url: string) {
  await page.goto(url);
  await page.locator(".composer textarea").fill("go");
  await page.locator(".composer textarea").press("Enter");
  const card = page.locator(".card");
  await expect(card.locator(".arg").first()).toBeVisible();
  return card;
}

const cells = (card: import("@playwright/test").Locator) =>
  card.locator(".args > .arg-rows > .arg").evaluateAll((rows) => rows.map((row) => row.textContent?.replace(/\s+/g, " ").trim()));

test("u2: a card shows the arguments in the order that the schema requires them, with titles, units and formats, to the digit", async ({ page, serve }) => {
  const { url } = await serve(withBook());
  const card = await openBook(page, url);
  expect(await cells(card)).toEqual([
    "Account accountVN-1",
    "Amount amount12345678.10 VND",
    "Parts legs1.Share share60labelrent2.Share share40labelfood",
    "Due due2026-03-01 · Sunday, March 1, 2026",
    "Speed speedf · Fast",
    "Receiver toName nameAnn",
  ]);
  await expect(card.locator(".args-unset")).toHaveText("Not set: Urgent (default: false)");

  // The text that counts is one click away.
  const exact = card.locator(".shown-text");
  await expect(exact).toBeHidden();
  await card.getByRole("button", { name: "Exact JSON" }).click();
  await expect(exact).toBeVisible();
  await expect(exact).toContainText('"amount": 12345678.10');
  await checkAccessible(page, "arguments");
  await card.getByRole("button", { name: "Approve", exact: true }).click();
  await expect(resolved(page)).toContainText("Approved");
  await expect(page.getByText("Result:")).toContainText("12345678.10");
});

test("u2: what could mislead is marked in the table too, and the exact text is open at once", async ({ page, serve }) => {
  const { url } = await serve(withBook(String.raw`{"account":"VN\u200b-1 p\u0430y","amount":1,"legs":[{"share":5,"label":"\u202ex"}]}`));
  const card = await openBook(page, url);
  await expect(card.locator(".shown-text")).toBeVisible();
  await expect(card.locator(".args mark")).toHaveText(["⟨U+200B⟩", "⟨U+0430⟩", "⟨U+202E⟩"]);
  await expect(card.locator(".shown-warning")).toBeVisible();
});

test("u2: objects, lists, choices and dates are edited in forms, and their limits are checked while typing", async ({ page, serve }) => {
  const { url } = await serve(withBook());
  const card = await openBook(page, url);
  await card.getByRole("button", { name: "Edit" }).click();
  const receiver = card.getByRole("group", { name: "Receiver" });
  await receiver.getByLabel("Name").fill("A");
  await expect(receiver.locator(".field-error")).toHaveText("Minimum length: 2.");
  await receiver.getByLabel("Name").fill("Bob");

  const parts = card.getByRole("group", { name: "Parts" });
  await parts.getByRole("group", { name: "Entry 1" }).getByLabel("Share").fill("7");
  await expect(parts.locator(".field-error")).toHaveText("A multiple of 5.");
  await expect(card.getByRole("button", { name: "Approve with changes" })).toBeDisabled();
  await parts.getByRole("group", { name: "Entry 1" }).getByLabel("Share").fill("55");
  await parts.getByRole("button", { name: "Add an entry" }).click();
  const added = parts.getByRole("group", { name: "Entry 3" });
  await expect(added.locator(".field-error")).toHaveText("This field is required.");
  await added.getByLabel("Share").fill("5");
  await added.getByLabel("label").fill("tip");
  await parts.getByRole("button", { name: "Remove entry 2" }).click();
  await card.getByLabel("Speed").selectOption("Normal");
  await card.getByLabel("Due").fill("2026-04-02");
  await checkAccessible(page, "editing what is nested");

  // What the edit changes is in view, wherever the form is.
  const changes = card.getByRole("group", { name: "Changes" });
  await card.getByLabel("Account").scrollIntoViewIfNeeded();
  await expect(changes).toBeInViewport();
  await expect(changes.locator("li").first()).toBeInViewport();
  const lines = await changes.locator("li").evaluateAll((all) => all.map((li) => li.textContent?.replace(/\s+/g, " ").trim()));
  expect(lines).toEqual([
    'Due due2026-03-01→"2026-04-02"'.replaceAll('"', ""),
    "Parts › 1 › Share legs[0].share60→55",
    "Parts › 2 › label legs[1].labelfood→tip",
    "Parts › 2 › Share legs[1].share40→5",
    "Speed speedf→n",
    "Receiver › Name to.nameAnn→Bob",
  ]);
  await card.getByRole("button", { name: "Approve with changes" }).click();
  await expect(page.getByText("Result:")).toContainText('{"share":55,"label":"rent"}'.slice(1, 10));
  await expect(page.getByText("Result:")).toContainText("12345678.10");
});

test("u2: an edit stays JSON while no form could show it, and goes back when one can", async ({ page, serve }) => {
  const { url } = await serve(withBook());
  const card = await openBook(page, url);
  await card.getByRole("button", { name: "Edit" }).click();
  await card.getByRole("button", { name: "JSON", exact: true }).click();
  await card.getByLabel("Arguments as JSON").fill('{"account":"VN-1","amount":2,"legs":[{"share":5,"label":"a","more":1}],"due":"2026-03-01","speed":"f","to":{"name":"Ann"}}');
  await expect(card.getByText("Valid JSON, but the form cannot show all of it.")).toBeVisible();
  await expect(card.getByRole("button", { name: "Form", exact: true })).toBeDisabled();
  await card.getByLabel("Arguments as JSON").fill('{"account":"VN-1","amount":2,"legs":[{"share":5,"label":"a"}],"due":"2026-03-01","speed":"f","to":{"name":"Ann"}}');
  await card.getByRole("button", { name: "Form", exact: true }).click();
  await expect(card.getByRole("group", { name: "Entry 1" }).getByLabel("label")).toHaveValue("a");
});

test("u2: what the server finds wrong inside a list is said at its field", async ({ page, serve }) => {
  const { url } = await serve({ ...withBook(), more: TITLES.replace("label = { type = \"string\" }", 'label = { type = "string", pattern = "^[a-z]+$" }') });
  const card = await openBook(page, url);
  await card.getByRole("button", { name: "Edit" }).click();
  const entry = card.getByRole("group", { name: "Entry 2" });
  await entry.getByLabel("label").fill("No Such");
  await card.getByRole("button", { name: "Approve with changes" }).click();
  await expect(entry.locator(".field-error")).toContainText("This value is not accepted.");
  await expect(card.locator(".editor .field-error")).toHaveCount(1);
});

for (const [locale, edit, entry, add, multiple, exact, notSet] of [
  ["en-US", "Edit", "Entry 1", "Add an entry", "A multiple of 5.", "Exact JSON", "Not set: Urgent (default: false)"],
  ["vi-VN", "Sửa", "Mục 1", "Thêm mục", "Phải là bội số của 5.", "JSON chính xác", "Không có giá trị: Urgent (mặc định: false)"],
  ["zh-CN", "修改", "第 1 项", "添加一项", "必须是 5 的倍数。", "原始 JSON", "未设置：Urgent（默认值：false）"],
] as const) {
  for (const [, width, colorScheme] of placesOf(locale.slice(0, 2) as Language)) {
    test.describe(`${locale}, ${width}`, () => {
      test.use({ locale, colorScheme, viewport: { width, height: 844 } });
      test("u2: arguments can be read and edited", async ({ page, serve }) => {
        const { url } = await serve(withBook());
        const card = await openBook(page, url);
        const look = async (name: string) => {
          if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/args-${name}-${locale}-${width}.png` });
        };
        await expect(card.locator(".args-unset")).toHaveText(notSet);
        await expect(card.getByRole("button", { name: exact })).toBeVisible();
        await hasNoSidewaysScroll(page);
        await checkAccessible(page, "arguments");
        await look("table");
        await card.getByRole("button", { name: edit, exact: true }).click();
        await card.getByRole("group", { name: entry }).getByLabel("Share").fill("7");
        await expect(card.getByText(multiple).first()).toBeVisible();
        await expect(card.getByRole("button", { name: add })).toBeVisible();
        await hasNoSidewaysScroll(page);
        await checkAccessible(page, "editing");
        await look("wrong");
        await card.getByRole("group", { name: entry }).getByLabel("Share").fill("75");
        await card.getByLabel("Account").fill("VN-2");
        await expect(card.locator(".edit-changes-list li").first()).toBeInViewport();
        await look("editing");
      });
    });
  }
}

test("u2: several calls each have their table and their changes in view", async ({ page, serve }) => {
  const turn: Turn = { calls: [{ name: "book", args: ARGS }, ...call('{"symbol":"VNM","quantity":1}').calls!] };
  const { url } = await serve({ ...withBook(), turns: [turn, { text: "Done." }] });
  const card = await openBook(page, url);
  await expect(card.locator(".args")).toHaveCount(2);
  await card.locator("[data-choice=edit]").first().click();
  await card.getByLabel("Account").fill("VN-9");
  await expect(card.getByRole("group", { name: "Changes" }).locator("li")).toHaveText("Account accountVN-1→VN-9");
  await card.getByLabel("Account").scrollIntoViewIfNeeded();
  await expect(card.getByRole("group", { name: "Changes" })).toBeInViewport();
  await checkAccessible(page, "several calls");
});
