/** What a reviewer sees of what a call would do: a diff of files, command lines. */
import { expect, hasNoSidewaysScroll, openCard, test } from "./support/console.js";

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
