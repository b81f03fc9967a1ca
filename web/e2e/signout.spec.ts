/** One tab, two people after each other. */
import { expect, oneOrder, signIn, test } from "./support/console.js";

test("u1: who signs out leaves nothing of theirs to the next person", async ({ page, serve, tolerate }) => {
  tolerate.push(/401/, /WebSocket connection to/);
  const { url } = await serve({ turns: oneOrder, people: { alice: ["user"], bob: ["user"] } });
  await signIn(page, "alice");
  await page.goto(url);
  const field = page.getByLabel("Message to the agent");
  await field.fill("Sell everything");
  await page.reload();
  await expect(field).toHaveValue("Sell everything");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Access token").fill("bob-token");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByText("bob").first()).toBeVisible();
  await expect(field).toHaveValue("");
});
