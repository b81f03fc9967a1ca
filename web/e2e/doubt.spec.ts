/** A call that was running when its server ended: what its reviewer reads about it. */
import { checkAccessible, expect, hasNoSidewaysScroll, test } from "./support/console.js";
import { LANGUAGES, wordsOf } from "./support/words.js";

const slow = `
[tools.slow]
description = "Takes its time."
command = ["/bin/sh", "-c", "exec sleep 60"]
parameters = { type = "object" }
`;

const SAYS = { en: "may still be running", vi: "có thể vẫn đang chạy", zh: "可能仍在那里执行" };

test("r4: who is asked about a call whose outcome is unknown is told that it may still be running", async ({ page, serve }) => {
  const server = await serve({ turns: [{ calls: [{ name: "slow", args: "{}" }] }, { text: "Done." }], more: slow, tools: ["slow"] });
  // No answer comes: it waits for the turn, in the middle of which the server ends.
  void fetch(`${server.url}/v1/sessions/s1/messages`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ content: "Go" }),
  }).catch(() => {});
  // Its start is stored, so that it is not simply begun again.
  const past = async () => (await (await fetch(`${server.url}/v1/sessions/s1/checkpoints`)).json()) as { checkpoints?: { after: string }[] };
  await expect.poll(async () => (await past()).checkpoints?.some((one) => one.after === "call_started")).toBe(true);
  await server.kill();
  await server.restart();
  await page.goto(`${server.url}/#/s/s1`);
  for (const language of LANGUAGES) {
    await page.evaluate((l) => localStorage.setItem("countersign:language", l), language);
    await page.reload();
    const t = wordsOf(language);
    const card = page.locator(".card");
    await expect(card.getByRole("heading", { level: 2 })).toHaveText(t("card.titleInDoubt"));
    await expect(card.locator(".card-text").first()).toContainText(SAYS[language]);
    await expect(page.locator(".tool-status")).toHaveText(t("tool.status.unknown"));
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 844 });
      await checkAccessible(page, `an unknown outcome, ${language}, ${width}`);
      await hasNoSidewaysScroll(page);
      if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/doubt-${language}-${width}.png` });
    }
  }
});
