/** Sessions in which nothing has happened yet. */
import { checkAccessible, expect, send, test } from "./support/console.js";

test("w2: a session in which no turn has begun is listed, opened and used like any other", async ({ page, serve }) => {
  const server = await serve({ turns: [{ text: "Hello." }] });
  const made = await fetch(`${server.url}/v1/sessions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  const { session_id, status } = (await made.json()) as { session_id: string; status: string };
  expect(status).toBe("idle");
  await page.goto(server.url);
  await page.getByRole("link", { name: session_id.slice(0, 8) }).click();
  await expect(page.locator(".topbar").getByText("Not started")).toBeVisible();
  await expect(page.getByText("Nothing has been said yet.")).toBeVisible();
  await checkAccessible(page, "a session that has not begun");
  await send(page, "Hi");
  await expect(page.getByText("Hello.")).toBeVisible();
  await expect(page.locator(".topbar").getByText("Finished")).toBeVisible();
});
