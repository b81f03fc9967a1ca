/** Input that no frame can carry: the field says so and keeps it, and nothing else queues behind it. */
import { expect, send, test } from "./support/console.js";

test("u1: a message that is too large for the server is refused at once, with its words given back, and the next one goes out", async ({ page, serve }) => {
  const { url } = await serve({ turns: [{ text: "Read: {{ last_user }}" }] });
  await page.goto(url);
  const large = "x".repeat(9 * 1024 * 1024);
  const field = page.getByLabel("Message to the agent");
  await field.fill(large);
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await expect(page.getByText("This is too large for the server.")).toBeVisible();
  await expect.poll(() => field.inputValue().then(({ length }) => length)).toBe(large.length);
  await send(page, "Something shorter");
  await expect(page.getByText("Read: Something shorter")).toBeVisible();
  await expect(page.getByText("This is too large for the server.")).toHaveCount(0);
});
