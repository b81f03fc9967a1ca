/** Steps are put together in groups, and out of the way once they are done. */
import { ask, call, expect, goal, openCard, openQuestion, order, resolved, send, test } from "./support/console.js";

test("a closed group shows its summary and opens to its steps", async ({ page, serve }) => {
  const { url } = await serve({
    turns: [
      { thinking: "I look at both.", calls: [{ name: "price", args: '{"symbol":"VNM"}' }] },
      { calls: [{ name: "price", args: '{"symbol":"FPT"}' }] },
      { text: "Both are fine." },
    ],
  });
  await page.goto(url);
  await send(page, "Compare");
  await expect(page.locator(".topbar")).toContainText("Finished");
  const group = page.locator(".group");
  await expect(group).toHaveCount(1);
  const row = group.locator(".group-row");
  await expect(row).toHaveText("Price of FPT");
  await expect(row).toHaveAttribute("aria-expanded", "false");
  await expect(group.locator(".tool").first()).toBeHidden();
  await row.click();
  await expect(row).toHaveAttribute("aria-expanded", "true");
  await expect(group.locator(".tool-message")).toHaveText(["Price of VNM", "Price of FPT"]);
  await expect(group.getByText("Thinking")).toBeVisible();
  // The answer is outside the group.
  await expect(group).not.toContainText("Both are fine.");
  await row.press("Enter");
  await expect(group.locator(".tool").first()).toBeHidden();
});

test("a group is open while the agent works in it", async ({ page, serve }) => {
  const { url } = await serve({
    // It runs for longer than the test.
    turns: [{ thinking: "I look.", calls: [{ name: "price", args: '{"symbol":"VNM"}' }] }, { text: "Fine.", delay_ms: 60_000 }],
  });
  await page.goto(url);
  await send(page, "Look");
  const group = page.locator(".group");
  await expect(group.locator(".tool-status")).toHaveText("done");
  await expect(group.locator(".tool")).toBeVisible();
  await expect(group.locator(".group-row")).toHaveText("Price of VNM");
  await page.getByRole("button", { name: "Stop" }).click();
  await expect(page.getByText("The turn was stopped.")).toBeVisible();
  await expect(group.locator(".tool")).toBeHidden();
});

test("without words of its own a group says how many steps it took", async ({ page, serve }) => {
  const { url } = await serve({
    turns: [
      { calls: [{ name: "lookup", args: '{"symbol":"A"}' }, { name: "lookup", args: '{"symbol":"B"}' }] },
      { text: "Done." },
    ],
  });
  await page.goto(url);
  await send(page, "Look");
  await expect(page.locator(".topbar")).toContainText("Finished");
  await expect(page.locator(".group-row")).toHaveText("2 stepslookup");
});

test("a request that waits is never out of sight", async ({ page, serve }) => {
  const { url } = await serve({
    turns: [{ calls: [{ name: "price", args: '{"symbol":"VNM"}' }, ...call(order).calls!] }, { text: "Done." }],
  });
  const card = await openCard(page, url);
  const group = page.locator(".group");
  const row = group.locator(".group-row");
  await expect(row).toHaveAttribute("aria-expanded", "true");
  await expect(group.locator(".card")).toBeVisible();
  await expect(group.locator(".tool")).toHaveCount(2);
  // Closed by hand: the steps go, the request stays.
  await row.click();
  await expect(row).toHaveAttribute("aria-expanded", "false");
  await expect(group.locator(".tool").first()).toBeHidden();
  await expect(card).toBeVisible();
  await page.reload();
  await expect(card).toBeVisible();
  await card.getByRole("button", { name: "Reject" }).click();
  await card.getByLabel("Reason").fill("Too expensive");
  await card.getByRole("button", { name: "Reject" }).click();

  await expect(page.locator(".topbar")).toContainText("Finished");
  await expect(row).toHaveAttribute("aria-expanded", "false");
  await expect(row).toContainText("Rejected: Too expensive");
  await expect(resolved(page)).toBeHidden();
  // The focus was inside, and must not be lost.
  await expect(row).toBeFocused();
  await row.press("Enter");
  await expect(resolved(page)).toBeVisible();
});

test("who opens a group keeps it open", async ({ page, serve }) => {
  const { url } = await serve({
    turns: [{ calls: [{ name: "price", args: '{"symbol":"VNM"}' }] }, ask(goal), { text: "Done." }],
  });
  const card = await openQuestion(page, url);
  const row = page.locator(".group-row");
  await expect(row).toHaveAttribute("aria-expanded", "false");
  await row.click();
  await card.getByRole("button", { name: "Skip" }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
  await expect(row).toHaveAttribute("aria-expanded", "true");
});

test("questions, text and what is shown as content stand outside of groups", async ({ page, serve }) => {
  const { url } = await serve({
    turns: [
      { thinking: "Hm.", calls: [{ name: "share_thought", args: '{"text":"I will ask first."}' }] },
      { calls: [{ name: "lookup", args: '{"symbol":"VNM"}' }] },
      ask(goal),
      { calls: [{ name: "chart", args: '{"symbol":"VNM"}' }] },
      { text: "Done." },
    ],
  });
  const card = await openQuestion(page, url);
  await expect(page.locator(".message.assistant > .markdown").first()).toHaveText("I will ask first.");
  await expect(page.locator(".group .card")).toHaveCount(0);
  await card.getByRole("button", { name: "Skip" }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
  await expect(page.locator(".group .resolved, .group .markdown")).toHaveCount(0);
  await expect(page.locator(".message.assistant > .tool .tool-name")).toHaveText("chart");
});

test("the to-do list can be read", async ({ page, serve }) => {
  const list = [
    { content: "Ask for the goal", status: "completed" },
    { content: "Look at prices", status: "in_progress" },
    { content: "Write it down", status: "pending" },
  ];
  const { url } = await serve({
    turns: [{ calls: [{ name: "write_todos", args: JSON.stringify({ todos: list }) }] }, ask(goal), { text: "Done." }],
  });
  const card = await openQuestion(page, url);
  // While the agent is at work it is in sight, though its step is folded away.
  const dock = page.locator(".todo-dock");
  await expect(dock.locator("summary")).toHaveText("1 of 3 doneLook at prices");
  await dock.locator("summary").click();
  await expect(dock.getByRole("listitem")).toHaveCount(3);
  await card.getByRole("button", { name: "Skip" }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
  await expect(dock).toHaveCount(0);
  await page.locator(".group-row").click();
  const todos = page.getByRole("list", { name: "To-do list" }).getByRole("listitem");
  await expect(todos).toHaveText(["Ask for the goal (done)", "Look at prices (in progress)", "Write it down (not started)"]);
});
