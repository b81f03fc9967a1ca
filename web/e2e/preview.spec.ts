/** The preview of a call, as a reviewer sees it: a diff of files, command lines. */
import { call, checkAccessible, expect, hasNoSidewaysScroll, openCard, resolved, test } from "./support/console.js";
import { placesOf, type Language } from "./support/words.js";

const files = { "a.txt": "one\n-- a/secret\nthree\n" };

test("s12 an edit is shown as a diff, of which no line of the file looks like a heading", async ({ page, serve }) => {
  const args = String.raw`{"path":"a.txt","old_string":"-- a/secret","new_string":"<b>bold</b> \u202e++ b/x"}`;
  const { url } = await serve({ files, turns: [{ calls: [{ name: "edit_file", args }] }, { text: "Done." }] });
  await page.setViewportSize({ width: 360, height: 740 });
  const card = await openCard(page, url);
  const preview = card.locator(".preview");
  await expect(preview).toContainText("What it would change");
  const lines = preview.locator(".preview-line");
  await expect(lines).toHaveText([
    "--- a/a.txt",
    "+++ b/a.txt",
    "@@ -1,3 +1,3 @@",
    " one",
    "--- a/secret",
    String.raw`+<b>bold</b> \u{202E}++ b/x`,
    " three",
  ]);
  const kinds = await lines.evaluateAll((all) => all.map((line) => line.getAttribute("data-line")));
  expect(kinds).toEqual(["file", "file", "hunk", "same", "remove", "add", "same"]);
  await expect(preview.locator("b")).toHaveCount(0);
  await expect(preview.locator("mark")).toHaveText(String.raw`\u{202E}`);
  await hasNoSidewaysScroll(page);
  await card.getByRole("button", { name: "Approve" }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
});

test("s12 a patch that does not fit says so in the preview's place, and command lines are shown as such", async ({ page, serve }) => {
  const patch = JSON.stringify({ patch: "*** Begin Patch\n*** Update File: a.txt\n@@\n-nowhere\n+x\n*** End Patch" });
  const commands = JSON.stringify({ commands: ["echo one\necho two"] });
  const calls = [{ name: "apply_patch", args: patch }, { name: "shell", args: commands }];
  const { url } = await serve({ files, turns: [{ calls }, { text: "Done." }] });
  const card = await openCard(page, url);
  await expect(card.locator(".preview").nth(0)).toContainText("What it would do cannot be shown");
  await expect(card.locator(".preview").nth(0)).toContainText("a.txt: hunk 1: these lines are not in the file");
  await expect(card.locator(".preview").nth(1)).toContainText("What it would do");
  await expect(card.locator(".preview-line").filter({ hasText: "$ echo one" })).toHaveCount(1);
});

test("s12 while a call is edited, what it would do then is shown, and never what other arguments would", async ({ page, serve }) => {
  const args = '{"path":"a.txt","old_string":"one","new_string":"1"}';
  const { url } = await serve({ files, turns: [{ calls: [{ name: "edit_file", args }] }, { text: "Done." }] });
  const card = await openCard(page, url);
  const added = card.locator('.preview-line[data-line="add"]');
  await expect(added).toHaveText("+1");
  await card.getByRole("button", { name: "Edit" }).click();
  // Nothing is changed yet.
  await expect(added).toHaveText("+1");
  const field = card.getByLabel("new_string");
  await field.fill("uno");
  await expect(added).toHaveText("+uno");
  await expect(card.getByText("The policy accepts these values.")).toBeVisible();
  for (const width of [390, 1280]) {
    await page.setViewportSize({ width, height: 844 });
    await hasNoSidewaysScroll(page);
    await checkAccessible(page, `an edit with its preview, ${width} wide`);
    if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/edit-diff-${width}.png` });
  }

  // The answer about older arguments comes last.
  let older = () => {};
  const held = new Promise<void>((resolve) => (older = resolve));
  await page.route("**/preview", async (route) => {
    if (route.request().postData()?.includes("slow")) await held;
    await route.continue().catch(() => {});
  });
  const asked = page.waitForRequest(/\/preview$/);
  await field.fill("slow");
  await asked;
  await expect(card.locator(".preview")).toHaveCount(0);
  await expect(card.getByText("Checking the changed call…")).toBeVisible();
  await field.fill("quick");
  await expect(added).toHaveText("+quick");
  older();
  await page.waitForTimeout(300);
  await expect(added).toHaveText("+quick");

  // An edit that the tool cannot make, and no edit at all.
  await card.getByLabel("old_string").fill("nowhere");
  await expect(card.locator(".preview")).toContainText("What it would do cannot be shown");
  await expect(card.locator(".edit-verdict")).toContainText("What it would do cannot be shown");
  await card.getByLabel("old_string").fill("one");
  await expect(added).toHaveText("+quick");
  await card.getByRole("button", { name: "Reset" }).click();
  await expect(added).toHaveText("+1");
  await field.fill("quick");
  await expect(added).toHaveText("+quick");
  await card.getByRole("button", { name: "Approve with changes" }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
});

test("s12 a server that does not answer about an edit is asked again", async ({ page, serve, tolerate }) => {
  tolerate.push(/Failed to load resource/);
  const { url } = await serve({ turns: [call('{"symbol":"VNM","quantity":1}'), { text: "Done." }] });
  const card = await openCard(page, url);
  await page.route("**/preview", (route) => route.abort());
  await card.getByRole("button", { name: "Edit" }).click();
  await card.getByLabel("quantity").fill("2");
  await expect(card.locator(".edit-verdict")).toContainText("The server cannot be reached.");
  // The decision does not depend on it.
  await expect(card.getByRole("button", { name: "Approve with changes" })).toBeEnabled();
  await page.unroute("**/preview");
  await card.getByRole("button", { name: "Try again" }).click();
  await expect(card.getByText("The policy accepts these values.")).toBeVisible();
});

const LIMITS = `
[[policy.rules]]
tool = "execute_trade"
when = "args.quantity > 900"
deny = "nobody buys that many"
[[policy.rules]]
name = "Large orders"
tool = "execute_trade"
when = "args.quantity > 500"
require = true
levels = ["admin"]
`;

for (const [locale, needs, send, accepts] of [
  ["en-US", "These values need approval: admin", "Send for approval", "The policy accepts these values."],
  ["vi-VN", "Các giá trị này cần được phê duyệt: admin", "Gửi để phê duyệt", "Chính sách chấp nhận các giá trị này."],
  ["zh-CN", "这些值需要审批：admin", "提交审批", "策略接受这些值。"],
] as const) {
  for (const [, width, colorScheme] of placesOf(locale.slice(0, 2) as Language)) {
    test.describe(`${locale}, ${width}`, () => {
      test.use({ locale, colorScheme, viewport: { width, height: 844 } });
      test("p1 what the policy says of an edit is known before it is sent", async ({ page, serve }) => {
        const { url } = await serve({ turns: [call('{"symbol":"VNM","quantity":100}'), { text: "Done." }], more: LIMITS });
        await page.goto(url);
        await page.locator(".composer textarea").fill("Buy");
        await page.locator(".composer textarea").press("Enter");
        const card = page.locator(".card");
        await expect(card.locator(".arg").first()).toBeVisible();
        await card.locator("[data-choice=edit]").click();
        await expect(card.locator("[data-choice=edit]")).toHaveCount(0);
        const quantity = card.getByLabel("quantity");
        const look = async (name: string) => {
          await hasNoSidewaysScroll(page);
          await checkAccessible(page, `an edit that ${name}, ${locale}, ${width} wide`);
          if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/edit-${name}-${locale}-${width}.png` });
        };
        await quantity.fill("950");
        await expect(card.locator(".edit-verdict")).toContainText("nobody buys that many");
        await look("is-refused");
        // The field being typed in stays in view.
        await quantity.fill("600");
        await expect(card.locator(".edit-verdict")).toContainText(needs);
        const covered = await quantity.evaluate((field) => {
          const { x, y, width, height } = field.getBoundingClientRect();
          return document.elementFromPoint(x + width / 2, y + height - 2) !== field;
        });
        expect(covered).toBe(false);
        await expect(card.locator(".edit-verdict")).toContainText("Large orders");
        await expect(card.getByRole("button", { name: send })).toBeEnabled();
        await look("needs-approval");
        await quantity.fill("50");
        await expect(card.locator(".edit-verdict")).toContainText(accepts);
        await look("is-accepted");
        await quantity.fill("600");
        await card.getByRole("button", { name: send }).click();
        await expect(resolved(page)).toBeVisible();
        await expect(card.locator(".arg").filter({ hasText: "quantity" })).toContainText("600");
      });
    });
  }
}
