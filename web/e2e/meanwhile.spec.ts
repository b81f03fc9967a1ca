/** Writing while a request is pending: the person chooses what happens to the text, and none of it is lost. */
import { mkdir, writeFile } from "node:fs/promises";
import { ask, call, checkAccessible, expect, goal, hasNoSidewaysScroll, oneOrder, openCard, resolved, send, test } from "./support/console.js";

const later = { calls: [{ name: "execute_trade", args: '{"symbol":"VNM","quantity":1}' }] };

test("w9: a message that waits for the decision is read with its results, also over a reload", async ({ page, serve }) => {
  const { url } = await serve({ turns: [...oneOrder.slice(0, 1), { text: "Read: {{ last_user }}" }] });
  const card = await openCard(page, url);
  const field = page.getByLabel("Message to the agent");
  await expect(page.locator(".way")).toHaveCount(0);
  await field.fill("And tell me the price.");
  await expect(page.locator(".way")).toHaveCount(2);
  // Not with a link half under the buttons that stay in view.
  await page.locator(".chat-scroll").evaluate((box) => box.scrollTo(0, box.scrollHeight));
  await checkAccessible(page, "ways to send");
  const button = page.getByRole("button", { name: "Send after the decision" });
  await expect(button).toHaveAccessibleDescription("The request stays pending; the agent reads the message with the results.");
  await button.click();
  await expect(field).toHaveValue("");
  const waiting = page.locator(".message.user.sending");
  await expect(waiting).toContainText("And tell me the price.");
  await expect(waiting).toContainText("Stored. The agent will read it in its turn.");
  await expect(card).toBeVisible();
  await page.reload();
  await expect(waiting).toContainText("And tell me the price.");
  await page.locator(".card").getByRole("button", { name: "Approve", exact: true }).click();
  await expect(page.locator(".message.user:not(.sending)")).toHaveCount(2);
  await expect(page.locator(".message.user").last()).toContainText("And tell me the price.");
  await expect(waiting).toHaveCount(0);
  await page.reload();
  await expect(page.locator(".message.user")).toHaveCount(2);
});

test("w9: a message can reject what is pending, which it says, and is the reason", async ({ page, serve }) => {
  const { url } = await serve({ turns: [...oneOrder.slice(0, 1), { text: "Understood." }] });
  await openCard(page, url);
  await page.getByLabel("Message to the agent").fill("Wait for tomorrow");
  const button = page.getByRole("button", { name: "Reject what is pending and send" });
  await expect(button).toHaveAccessibleDescription("The pending request is rejected, with your message as the reason.");
  await button.click();
  await expect(resolved(page)).toContainText("Rejected: Wait for tomorrow");
  await expect(page.locator(".message.user").last()).toContainText("Wait for tomorrow");
  await expect(page.getByText("Understood.")).toBeVisible();
});

test("w9: Enter takes the harmless way, and questions are answered or declined", async ({ page, serve }) => {
  const { url } = await serve({ turns: [ask(goal), later, { text: "Done." }] });
  await page.goto(url);
  await send(page, "Plan");
  await expect(page.locator(".card[data-kind=question]")).toBeVisible();
  const field = page.getByLabel("Message to the agent");
  await field.fill("One more thing");
  await expect(page.getByRole("button", { name: "Send after the answer" })).toBeVisible();
  await field.press("Enter");
  await expect(page.locator(".card[data-kind=question]")).toBeVisible();
  await expect(page.locator(".message.user.sending")).toContainText("One more thing");
});

test("w9: while the agent works, a message waits for its step", async ({ page, serve }, info) => {
  await mkdir(info.outputDir, { recursive: true });
  const done = info.outputPath("done");
  const wait = `for i in $(seq 1200); do [ -e '${done}' ] && exit; sleep 0.1; done`;
  const slow = `[tools.slow]\ndescription = "Takes its time."\nparameters = { type = "object" }\ncommand = ["/bin/sh", "-c", ${JSON.stringify(wait)}]`;
  const { url } = await serve({ turns: [{ calls: [{ name: "slow", args: "{}" }] }, { text: "Second." }], more: slow, tools: ["slow"] });
  await page.goto(url);
  await send(page, "Go");
  const field = page.getByLabel("Message to the agent");
  await expect(page.getByText("The agent is working. You can write to it meanwhile.")).toBeVisible();
  await field.fill("Faster");
  await page.getByRole("button", { name: "Send after this step" }).click();
  await expect(page.locator(".message.user.sending")).toContainText("Faster");
  await writeFile(done, "");
  await expect(page.getByText("Second.")).toBeVisible();
  await expect(page.locator(".message.user.sending")).toHaveCount(0);
});

test("w9: who does not own the session writes no message for it", async ({ page, context, serve }) => {
  const people = { alice: ["user"], bob: ["admin", "user"] };
  const { url } = await serve({ turns: oneOrder, people, approval: 'levels = ["admin"]' });
  const { signIn, tabOf } = await import("./support/console.js");
  await signIn(page, "alice");
  await page.goto(url);
  await send(page);
  await expect(page.locator(".card")).toBeVisible();
  const bob = await tabOf(context, "bob", page.url());
  await expect(bob.locator(".card").getByRole("button", { name: "Approve", exact: true })).toBeEnabled();
  await expect(bob.getByLabel("Message to the agent")).toHaveCount(0);

  // The card shows both people the requester and the time; the line that replaces it, who decided and when.
  await expect(bob.locator(".card-asked")).toHaveText(/^Requested by alice, (now|\d+ (sec|min)\. ago|this minute)/);
  await expect(page.locator(".card-asked time")).toHaveAttribute("datetime", /^\d{4}-\d\d-\d\dT/);
  await bob.locator(".card").getByRole("button", { name: "Approve", exact: true }).click();
  for (const tab of [page, bob]) {
    // Until then the line is open, and pressing it would close it.
    await expect(tab.locator(".topbar")).toContainText("Finished");
    await tab.locator(".group-row").last().click();
    await expect(resolved(tab)).toContainText("Approved");
    await expect(resolved(tab)).toContainText(tab === bob ? "by" : "by bob");
    await expect(resolved(tab).locator(".resolved-when")).toHaveAttribute("datetime", /^\d{4}-\d\d-\d\dT/);
    await expect(resolved(tab).locator(".resolved-when")).toHaveText(/ago|now/);
  }
  // The server's own record says the same.
  const key = (await (await fetch(`${url}/v1/approvals?status=resolved`, { headers: { authorization: "Bearer alice-token" } })).json()).approvals[0];
  await expect(resolved(page).locator(".resolved-when")).toHaveAttribute("datetime", key.resolved_at);
});

for (const [locale, labels] of [
  ["en-US", ["Send after the decision", "Reject what is pending and send"]],
  ["vi-VN", ["Gửi sau khi có quyết định", "Từ chối yêu cầu đang chờ và gửi"]],
  ["zh-CN", ["决定之后发送", "拒绝待处理的请求并发送"]],
] as const) {
  for (const [width, colorScheme] of [[1280, "dark"], [360, "light"]] as const) {
    test.describe(`${locale}, ${width}`, () => {
      test.use({ locale, colorScheme, viewport: { width, height: 780 } });
      test("w9: the ways to send fit and are named", async ({ page, serve }) => {
        const { url } = await serve({ turns: [call('{"symbol":"VNM","quantity":1}'), { text: "Done." }] });
        await page.goto(url);
        await page.locator(".composer textarea").fill("go");
        await page.locator(".composer textarea").press("Enter");
        await expect(page.locator(".card .arg").first()).toBeVisible();
        await page.locator(".composer textarea").fill("1");
        for (const name of labels) await expect(page.getByRole("button", { name })).toBeInViewport({ ratio: 1 });
        await hasNoSidewaysScroll(page);
        await page.locator(".chat-scroll").evaluate((box) => box.scrollTo(0, box.scrollHeight));
        await checkAccessible(page, "ways");
        if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/ways-${locale}-${width}.png` });
      });
    });
  }
}
