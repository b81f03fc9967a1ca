/** The hooks and cards of @countersign/react, on a page of another origin, against the server. */
import type { Page } from "@playwright/test";
import { ask, begin, call, checkAccessible, expect, goal, hasNoSidewaysScroll, horizon, oneOrder, order, sectors, test } from "./support/console.js";
import { withBook } from "./support/book.js";
import { servePage, type ServedPage } from "./support/page.js";
import type { Server } from "./support/server.js";
import { EVERYWHERE, labels, LANGUAGES, type Language } from "./support/words.js";

let site: ServedPage;
test.beforeAll(async () => void (site = await servePage("react")));
test.afterAll(() => site.stop());

const cardOf = (page: Page) => page.locator('main [data-countersign="card"]');

async function open(page: Page, server: Server, { origin } = site, language: Language = "en"): Promise<void> {
  await page.goto(`${origin}/?server=${encodeURIComponent(server.url)}&language=${language}`);
  await expect(page.getByTestId("state")).toContainText("open");
}

test("u2: a card shows what would run, and an edit of it runs with every digit", async ({ page, serve }) => {
  const server = await serve({ turns: oneOrder, origins: [site.origin] });
  await open(page, server);
  await page.getByRole("button", { name: "Start" }).click();
  const card = cardOf(page);
  await expect(card.locator('[data-part="args"]')).toContainText("9007199254740993");
  await expect(page.getByRole("complementary", { name: "Inbox" }).getByRole("listitem")).toHaveText(["s1_1"]);
  await checkAccessible(page, "a card");

  // By the keyboard alone: the choices are radio buttons, one of them is the edit.
  await card.getByRole("radio", { name: "Approve" }).focus();
  while (!(await card.getByRole("radio", { name: "Edit" }).isChecked())) await page.keyboard.press("ArrowDown");
  await card.getByLabel("quantity").fill("25");
  await checkAccessible(page, "an edit");
  await card.getByRole("button", { name: "Send" }).press("Enter");

  await expect(page.getByTestId("state")).toContainText("completed");
  const over = page.locator('[data-countersign="resolved"]');
  await expect(over).toContainText("Approved with changes");
  for (const digits of ["25", "82000.10", "9007199254740993"]) await expect(over.locator('[data-part="args"]')).toContainText(digits);
  await expect(over.locator('[data-part="changes"] li')).toHaveText("quantity100→25");
  await expect(page.getByRole("region", { name: "History" })).toContainText("9007199254740993");
  await expect(page.getByRole("complementary", { name: "Inbox" }).getByRole("listitem")).toHaveCount(0);
});

test("u2: questions are answered, and the history shows the answers", async ({ page, serve }) => {
  const server = await serve({ turns: [ask(goal, horizon), { text: "Done." }], origins: [site.origin] });
  await open(page, server);
  await page.getByRole("button", { name: "Start" }).click();
  const card = cardOf(page);
  await card.getByRole("group", { name: goal.question }).getByLabel("Long-term growth").check();
  await checkAccessible(page, "a question");
  await card.getByRole("button", { name: "Next" }).click();
  // The choice survives a reload.
  await page.reload();
  await card.getByRole("button", { name: "Back" }).click();
  await expect(card.getByLabel("Long-term growth")).toBeChecked();
  await card.getByRole("button", { name: "Next" }).click();
  await card.getByRole("button", { name: "Review answers" }).click();
  await expect(card.getByRole("alert").filter({ hasText: "Choose an answer" })).toBeVisible();
  await card.getByRole("button", { name: "Skip" }).click();
  await checkAccessible(page, "all answers");
  await card.getByRole("button", { name: "Send answers" }).click();
  await expect(page.getByTestId("state")).toContainText("completed");
  await expect(page.getByRole("region", { name: "History" }).locator("dt, dd")).toHaveText([
    `${goal.header} ${goal.question}`,
    "Long-term growth",
    horizon.question,
    "No preference",
  ]);
});

test("u2: the inbox has page after page, and what somebody else decided takes the place of the card", async ({ page, serve }) => {
  const server = await serve({ turns: [call(order), { text: "Done." }], origins: [site.origin] });
  for (const id of ["a", "b"]) {
    const body = JSON.stringify({ content: "Buy" });
    await fetch(`${server.url}/v1/sessions/${id}/messages`, { method: "POST", headers: { "content-type": "application/json" }, body });
  }
  await open(page, server);
  await page.getByRole("button", { name: "Start" }).click();
  const inbox = page.getByRole("complementary", { name: "Inbox" });
  const listed = async () => (await inbox.getByRole("listitem").allTextContents()).sort();
  await expect.poll(async () => (await listed()).length).toBe(2);
  await inbox.getByRole("button", { name: "More" }).click();
  await expect.poll(listed).toEqual(["a_1", "b_1", "s1_1"]);

  // Somebody else is first, in the middle of it.
  await cardOf(page).getByLabel("Reject").check();
  const body = JSON.stringify({ decisions: [{ type: "approve" }] });
  await fetch(`${server.url}/v1/approvals/s1_1`, { method: "POST", headers: { "content-type": "application/json" }, body });
  await expect(page.locator('main [data-countersign="resolved"]')).toContainText("Approved");
  await expect.poll(listed).toEqual(["a_1", "b_1"]);
});

test("r2: who replies too late is told so, who was first and how, until they have read it", async ({ page, serve }) => {
  const people = { ann: ["user"], bob: ["user"] };
  const server = await serve({ turns: [call(order), ask(goal), { text: "Done." }], people, approval: 'levels = ["user"]', origins: [site.origin] });
  await page.goto(`${site.origin}/?server=${encodeURIComponent(server.url)}&token=ann-token`);
  await page.getByRole("button", { name: "Start" }).click();
  const [card, over] = [cardOf(page), page.locator('main [data-countersign="resolved"]')];
  const late = over.getByRole("alert");
  /** Somebody else decides just before: the page cannot know of it yet. */
  const overtaken = (part: string, key: string, reply: object) =>
    page.evaluate(
      ([url, part, reply]) => {
        const request = new XMLHttpRequest();
        request.open("POST", url!, false);
        request.setRequestHeader("content-type", "application/json");
        request.setRequestHeader("authorization", "Bearer ann-token");
        request.send(reply);
        document.querySelector<HTMLElement>(`main [data-countersign="card"] [data-part="${part}"]`)!.click();
      },
      [`${server.url}/v1/approvals/${key}`, part, JSON.stringify(reply)] as const,
    );
  await card.getByRole("radio", { name: "Reject" }).check();
  await card.getByLabel("Reason (the agent will read it)").fill("Too dear");
  await overtaken("send", "s1_1", { decisions: [{ type: "approve" }] });
  await expect(late).toHaveText(`${labels.en.late}Approved by ann`);
  await checkAccessible(page, "too late");
  expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
  await over.getByRole("button", { name: labels.en.dismiss }).click();
  await expect(late).toHaveCount(0);
  await expect(over).toContainText("Approved by ann");

  await card.getByLabel("Long-term growth").check();
  await overtaken("next", "s1_2", { answers: { [goal.question]: goal.options[0]!.label } });
  await expect(late).toHaveText(`${labels.en.late}Answered by ann`);
  await expect(over.last()).toContainText(goal.options[0]!.label);
});

test("u2: a session that is made elsewhere is followed once it is there", async ({ page, serve }) => {
  const server = await serve({ turns: [call(order)], origins: [site.origin] });
  await open(page, server);
  await expect(page.getByTestId("state")).toContainText("missing");
  await begin(server.url, "s1");
  await expect(cardOf(page)).toBeVisible();
  await expect(page.getByTestId("state")).not.toContainText("missing");
});

/** Edits a call in the form of its schema, as people of a language do, and looks at what runs. */
async function editsByTheForm(page: Page, language: Language, look: (name: string) => Promise<void>): Promise<void> {
  const { choices, send, texts } = labels[language];
  const text = (key: keyof typeof texts, n: string | number = "") => texts[key].replace("{n}", String(n));
  await page.getByRole("button", { name: "Start" }).click();
  const card = cardOf(page);
  const rows = card.locator('[data-part="args"] > [data-part="arg-rows"] > [data-part="arg"]');
  // As the schema requires them, not as the model wrote them.
  await expect(rows.locator("> dt")).toHaveText(["Account account", "Amount amount", "Parts legs", "Due due", "Speed speed", "Receiver to"]);
  await expect(rows.nth(1)).toContainText("12345678.10 VND");
  await expect(rows.nth(4)).toContainText("f · Fast");
  await look("table");

  await card.getByRole("radio", { name: choices.edit, exact: true }).check();
  const receiver = card.getByRole("group", { name: "Receiver" });
  const entry = card.getByRole("group", { name: text("edit.entry", 1), exact: true });
  const share = entry.getByLabel("Share");
  const problem = card.locator('[data-part="editor"] [data-part="problem"]');
  await share.fill("7");
  await expect(problem).toHaveText(text("edit.error.multiple", 5));
  await expect(share).toHaveAttribute("aria-invalid", "true");
  await receiver.getByLabel("Name").fill("B");
  await expect(problem).toHaveText([text("edit.error.multiple", 5), text("edit.error.minLength", 2)]);
  await look("wrong");
  await card.getByRole("button", { name: send, exact: true }).click();
  await expect(card.getByRole("alert")).toHaveText(text("edit.fixFirst"));
  await expect(share).toBeFocused();

  await share.fill("55");
  // A field has no key that would send the half-made edit.
  await share.press("Enter");
  await receiver.getByLabel("Name").fill("Bob");
  await card.getByLabel("Speed").selectOption("Normal");
  await card.getByLabel("Due").fill("2026-04-02");
  await expect(problem).toHaveCount(0);
  const changes = card.getByRole("group", { name: text("edit.changes"), exact: true });
  await expect(changes.locator("li")).toHaveText([
    "Due due2026-03-01→2026-04-02",
    "Parts › 1 › Share legs[0].share60→55",
    "Speed speedf→n",
    "Receiver › Name to.nameAnn→Bob",
  ]);
  await expect(card.locator('[data-part="leads-to"]')).toHaveText(text("edit.accepted"));
  await look("changes");
  await card.getByRole("button", { name: send, exact: true }).click();

  // The call runs as it was shown.
  await expect(page.getByTestId("state")).toContainText("completed");
  const result = page.getByRole("region", { name: "History" }).getByText("Result:");
  for (const part of ['"share":55', '"share":40', '"speed":"n"', '"name":"Bob"', '"due":"2026-04-02"', '"amount":12345678.10']) {
    await expect(result).toContainText(part);
  }
  await expect(page.locator('[data-countersign="resolved"] [data-part="args"]')).toContainText("12345678.10");
  await look("ran");
}

for (const language of LANGUAGES) {
  test(`u2: a card without styles has a table of the arguments and edits them by the form, ${language}`, async ({ page, serve }) => {
    const server = await serve({ ...withBook(), origins: [site.origin] });
    await open(page, server, site, language);
    await editsByTheForm(page, language, (name) => checkAccessible(page, name));
  });
}

test.describe("with styles", () => {
  let styled: ServedPage;
  test.beforeAll(async () => void (styled = await servePage("react-styled")));
  test.afterAll(() => styled.stop());

  for (const [language, width, colorScheme] of EVERYWHERE) {
    test(`u2: a card with styles has a table of the arguments and edits them by the form, ${language}, ${width}, ${colorScheme}`, async ({ page, serve }) => {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 844 });
      const server = await serve({ ...withBook(), origins: [styled.origin] });
      await open(page, server, styled, language);
      await editsByTheForm(page, language, async (name) => {
        await hasNoSidewaysScroll(page);
        await checkAccessible(page, name);
        if (name === "changes") await expect(cardOf(page).locator('[data-part="changes"] li').first()).toBeInViewport();
        if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/react-args-${name}-${language}-${width}.png`, fullPage: name !== "changes" });
      });
    });
  }

  test("x: a long text is approved only once all of it is shown, and then its end is there", async ({ page, serve }) => {
    await page.setViewportSize({ width: 1280, height: 700 });
    const note = (lines: number) => Array.from({ length: lines }, (_, i) => `Line ${i} of the note`).join("\n");
    const args = (lines: number) => JSON.stringify({ symbol: "VNM", quantity: 1, note: note(lines) });
    const server = await serve({ turns: [call(args(300)), call(args(40)), { text: "Done." }], origins: [styled.origin] });
    await open(page, server, styled);
    await page.getByRole("button", { name: "Start" }).click();
    const text = cardOf(page).locator('[data-part="shown"]');
    // How much of it is in its box, and whether the page can bring its last line into view.
    const box = () => text.evaluate((pre) => ({ cut: pre.scrollHeight > pre.clientHeight + 1, height: pre.clientHeight }));
    const choose = async (choice: string) => {
      await cardOf(page).getByRole("radio", { name: choice }).check();
      await cardOf(page).getByRole("button", { name: "Send" }).click();
    };
    await expect(text).toContainText("Line 299");
    const before = await box();
    expect([before.cut, before.height < 700]).toEqual([true, true]);
    await choose("Approve");
    await expect(cardOf(page).getByRole("alert")).toHaveText(labels.en.texts["shown.long"]);
    await expect(page.getByTestId("state")).toContainText("awaiting");
    await cardOf(page).getByRole("button", { name: "Show all" }).click();
    const after = await box();
    expect([after.cut, after.height > 3000]).toEqual([false, true]);
    await checkAccessible(page, "a long text");
    await choose("Approve");

    // A box that needs no scrolling is not cut either.
    await expect(cardOf(page).locator('[data-part="args"]')).toContainText("Line 39");
    await cardOf(page).getByRole("button", { name: "Exact JSON" }).click();
    expect(await box()).toMatchObject({ cut: false });
    await choose("Approve");
    await expect(page.getByTestId("state")).toContainText("completed");
  });

  for (const colorScheme of ["light", "dark"] as const) {
    for (const width of [1280, 360]) {
      test(`u2: the styles that come along are legible and fit, ${colorScheme}, ${width}`, async ({ page, serve }) => {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 800 });
        const own = { question: "What is it for?", options: [{ label: "A house" }, { label: "Something else", input: true }] };
        const server = await serve({ turns: [call(order), ask(goal, sectors, own), { text: "Done." }], origins: [styled.origin] });
        await open(page, server, styled);
        await page.getByRole("button", { name: "Start" }).click();
        const card = cardOf(page);
        const press = (name: string) => card.getByRole("button", { name, exact: true }).click();
        await expect(card).toHaveCSS("border-top-width", "3px");
        await expect(card.getByRole("button", { name: "Send" })).not.toHaveCSS("background-color", "rgba(0, 0, 0, 0)");
        const look = async (name: string) => {
          expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(0);
          await checkAccessible(page, name);
          if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/react-${name}-${colorScheme}-${width}.png`, fullPage: true });
        };
        await look("call");
        await card.getByRole("radio", { name: "Edit" }).check();
        await press("JSON");
        await card.getByLabel("Arguments as JSON").fill("{");
        await press("Send");
        await look("edit");
        await card.getByRole("radio", { name: "Approve" }).check();
        await press("Send");
        await card.getByLabel("Long-term growth").check();
        await look("question");
        await press("Next");
        await press("Next");
        await look("problem");
        await card.getByLabel("Steel").check();
        await card.getByLabel("Banks").check();
        await press("Next");
        await card.getByRole("textbox").fill("A boat");
        await look("own-answer");
        await press("Review answers");
        await look("review");
        await press("Do not answer");
        await look("decline");
        await press("Back");
        await press("Send answers");
        await expect(page.getByTestId("state")).toContainText("completed");
        await expect(page.locator('main [data-countersign="resolved"]').first()).toBeVisible();
        await look("over");
      });
    }
  }
});
