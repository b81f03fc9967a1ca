/** Appearance: phone width, languages, accessibility, and text that must not be taken for markup. */
import {
  ask,
  begin,
  call,
  checkAccessible,
  expect,
  goal,
  hasNoSidewaysScroll,
  horizon,
  oneOrder,
  openCard,
  openQuestion,
  order,
  resolved,
  sectors,
  test,
  type Question,
} from "./support/console.js";
import { APPEARANCES, labels, speak } from "./support/words.js";

for (const colorScheme of ["light", "dark"] as const) {
  test.describe(`accessibility, ${colorScheme}`, () => {
    test.use({ colorScheme });

    const check = checkAccessible;

    test("axe finds nothing in any state", async ({ page, serve }) => {
      const { url } = await serve({ turns: oneOrder });
      await page.goto(url);
      await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
      await check(page, "empty");
      const card = await openCard(page, url);
      await check(page, "waiting");
      await page.locator(".tool-row").click();
      await card.getByRole("button", { name: "Edit" }).click();
      await card.getByLabel("quantity").fill("x");
      await check(page, "editing");
      await page.keyboard.press("Escape");
      await card.getByRole("button", { name: "Reject" }).click();
      await check(page, "rejecting");
      await page.getByRole("link", { name: "Inbox" }).click();
      await expect(page.locator(".inbox-row")).toBeVisible();
      await check(page, "inbox");
      await page.goBack();
      await card.getByRole("button", { name: "Reject" }).click();
      await expect(page.locator(".topbar")).toContainText("Finished");
      await check(page, "resolved");
      await page.locator(".group-row").first().click();
      await check(page, "resolved, opened");
    });
  });
}

for (const [language, colorScheme] of APPEARANCES) {
  test.describe(`questions, ${language}, ${colorScheme}`, () => {
    test.use({ colorScheme });
    test("axe finds nothing in any state of a question, and it fits at two widths", async ({ page, serve }) => {
      const t = await speak(page, language);
      const { questions } = labels[language];
      const todos = '{"todos":[{"content":"Ask","status":"completed"},{"content":"Plan","status":"in_progress"}]}';
      const { url } = await serve({
        turns: [{ calls: [{ name: "write_todos", args: todos }] }, ask(goal, sectors), { text: "Done." }],
      });
      await begin(url, "s1", "Plan my savings");
      await page.goto(`${url}/#/s/s1`);
      const card = page.locator(".card[data-kind=question]");
      const press = (name: string) => card.getByRole("button", { name, exact: true }).click();
      const check = async (where: string) => {
        for (const width of [390, 1280]) {
          await page.setViewportSize({ width, height: 844 });
          await checkAccessible(page, `${where}, ${language}, ${width}`);
          await hasNoSidewaysScroll(page);
          if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/question-${where.replaceAll(" ", "-")}-${language}-${colorScheme}-${width}.png` });
        }
      };
      await expect(card.getByRole("button", { name: questions.skip, exact: true })).toBeEnabled();
      await page.locator(".group-row").click();
      await page.locator(".todo-dock summary").click();
      await check("waiting");
      await press(questions.next);
      await check("nothing chosen");
      await card.getByRole("textbox").fill("Both");
      await press(questions.next);
      await press(questions.skip);
      await check("review");
      await page.locator(".sidebar a[href^='#/inbox']").click();
      await expect(page.locator(".inbox-row")).toBeVisible();
      await check("inbox");
      await page.goBack();
      await press(questions.decline);
      await check("declining");
      await press(t("decide.back"));
      await press(questions.sendAll);
      await expect(page.locator(".topbar")).toContainText(t("status.completed"));
      await check("answered");
    });
  });
}

test.describe("phone", () => {
  test.use({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });

  test("nothing scrolls sideways, and everything can be done", async ({ page, serve }) => {
    const long = "x".repeat(300);
    const { url } = await serve({
      turns: [
        { text: `Word ${long}\n\n| a | b |\n|---|---|\n| ${long} | c |\n\n\`\`\`\n${long}\n\`\`\``, ...pick(call(`{"symbol":"${long}","quantity":1}`)) },
        { text: "Done." },
      ],
    });
    const card = await openCard(page, url);
    await hasNoSidewaysScroll(page);
    await card.getByRole("button", { name: "Edit" }).tap();
    await hasNoSidewaysScroll(page);
    await card.getByRole("button", { name: "Back" }).tap();
    await page.getByRole("button", { name: "Open the session list" }).tap();
    await expect(page.getByRole("link", { name: "New session" })).toBeVisible();
    await hasNoSidewaysScroll(page);
    await page.getByRole("button", { name: "Close the session list" }).tap();
    await page.locator(".topbar").getByRole("link", { name: /^Inbox/ }).tap();
    await expect(page.locator(".inbox-row")).toBeVisible();
    await hasNoSidewaysScroll(page);
    await page.locator(".inbox-link").tap();
    await expect(card).toBeFocused();
    await hasNoSidewaysScroll(page);
    await page.locator(".inbox-asked").getByRole("link").tap();
    await card.getByRole("button", { name: "Approve" }).tap();
    await expect(resolved(page)).toContainText("Approved");
    await hasNoSidewaysScroll(page);
  });
});

test.describe("phone", () => {
  test.use({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });

  test("questions fit, however long their words are", async ({ page, serve }) => {
    const long = "x".repeat(300);
    const { url } = await serve({
      turns: [
        ask({ question: `Which ${long}?`, header: long, options: [{ label: long, description: long }] }, horizon),
        { text: "Done." },
      ],
    });
    const card = await openQuestion(page, url);
    await hasNoSidewaysScroll(page);
    await card.getByRole("radio").first().tap();
    await card.getByRole("button", { name: "Next" }).tap();
    await card.getByRole("button", { name: "Skip" }).tap();
    await hasNoSidewaysScroll(page);
    await card.getByRole("button", { name: "Send answers" }).tap();
    await expect(resolved(page)).toContainText("No preference");
    await hasNoSidewaysScroll(page);
  });
});

const pick = ({ calls }: ReturnType<typeof call>) => ({ calls: calls! });

for (const [locale, approve, heading, edit, atMost, noJson, says] of [
  ["vi-VN", "Phê duyệt", "“execute_trade” cần phê duyệt", "Sửa", "Tối đa là 1000.", "JSON không hợp lệ, từ dòng 1, cột 13.", "Máy chủ cho biết:"],
  ["zh-CN", "批准", "“execute_trade”需要审批", "修改", "不能大于 1000。", "JSON 无效，位于第 1 行第 13 列。", "服务器说明："],
] as const) {
  test.describe(`language ${locale}`, () => {
    test.use({ locale });
    test("follows the browser and can be switched", async ({ page, serve }) => {
      const { url } = await serve({ turns: oneOrder });
      await page.goto(url);
      await expect(page.locator("html")).toHaveAttribute("lang", locale.slice(0, 2));
      await page.locator("textarea").fill("VNM");
      await page.locator("textarea").press("Enter");
      const card = page.locator(".card");
      await expect(card.getByRole("heading", { level: 2 })).toHaveText(heading);
      await expect(card.getByRole("button", { name: approve })).toBeVisible();
      // A form's own errors are in the page's language; the server's errors are set apart.
      await card.getByRole("button", { name: edit }).click();
      await card.getByLabel("quantity").fill("5000");
      await expect(card.locator(".field-error")).toHaveText(atMost);
      await card.getByLabel("quantity").fill("5");
      await card.getByRole("button", { name: "JSON" }).click();
      const editor = card.locator("textarea.mono");
      await editor.fill('{"symbol": 7');
      await expect(card.locator(".field-error")).toHaveText(noJson);
      await editor.fill('{"symbol": 7, "quantity": 5000}');
      await card.locator(".button.primary").click();
      const problems = card.getByRole("alert").getByRole("listitem");
      await expect(problems.first()).toHaveText(`quantity ${atMost}`);
      await expect(problems.last()).toContainText(says);
      await expect(problems.last().locator("[lang=en]")).toContainText("string");
      await page.keyboard.press("Escape");
      await page.locator(".preferences select").first().selectOption("en");
      await expect(card.getByRole("button", { name: "Approve" })).toBeVisible();
      await page.reload();
      await expect(card.getByRole("button", { name: "Approve" })).toBeVisible();
    });
  });
}

test("hidden characters in questions are shown", async ({ page, serve }) => {
  const hidden: Question = { question: "Pay\u200b?", options: [{ label: "Ye\u202es", description: "N\u2066ow" }] };
  const { url } = await serve({ turns: [ask(hidden), { text: "Done." }] });
  const card = await openQuestion(page, url);
  await expect(card.locator(".question-text")).toHaveText("Pay⟨U+200B⟩?");
  await expect(card.locator(".option-text").first()).toHaveText("Ye⟨U+202E⟩sN⟨U+2066⟩ow");
  await card.getByRole("radio").first().check();
  await card.getByRole("button", { name: "Send answer" }).click();
  await expect(resolved(page).locator("dd")).toHaveText("Ye⟨U+202E⟩s");
});

test("the model's text is Markdown and never markup", async ({ page, serve }) => {
  const requests: string[] = [];
  page.on("request", (r) => requests.push(r.url()));
  const text = "**bold** <img src=x onerror=alert(1)> <script>alert(1)</script> ![pic](https://evil.example/p.png) [bad](javascript:alert(1))";
  const { url } = await serve({ turns: [{ ...call(order), text }, { text: "Done." }] });
  await openCard(page, url);
  const said = page.locator(".markdown").first();
  await expect(said.locator("strong")).toHaveText("bold");
  await expect(said).toContainText("<script>alert(1)</script>");
  await expect(said.locator("img, script")).toHaveCount(0);
  await expect(said.locator('a[href^="javascript"]')).toHaveCount(0);
  expect(requests.filter((r) => r.includes("evil.example"))).toEqual([]);
});

test("light and dark can be chosen, and stay chosen", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  await page.goto(url);
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.getByLabel("Appearance").selectOption("dark");
  await expect.poll(background).not.toBe(light);
  await page.reload();
  await expect.poll(background).not.toBe(light);
});
