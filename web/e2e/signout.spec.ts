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

test("u1: who signs in sees nothing of the one before, also until the server has said who it is", async ({ page, serve, tolerate }) => {
  tolerate.push(/401/, /WebSocket connection to/);
  const { url } = await serve({ turns: oneOrder, people: { alice: ["user"], bob: ["user"] } });
  // What the server says arrives once this is resolved.
  let arrives = Promise.resolve();
  await page.routeWebSocket(/\/v1\/ws$/, (tab) => {
    const server = tab.connectToServer();
    server.onMessage(async (message) => {
      await arrives;
      tab.send(message);
    });
  });
  await signIn(page, "alice");
  await page.goto(url);
  const field = page.getByLabel("Message to the agent");
  await expect(page.getByText("alice").first()).toBeVisible();
  await field.fill("Sell everything");
  await page.evaluate(() => sessionStorage.setItem("countersign:token", "of-yesterday"));
  await page.reload();
  await page.getByLabel("Access token").fill("bob-token");
  let greet = () => {};
  arrives = new Promise((resolve) => (greet = resolve));
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByText("Connecting")).toBeVisible();
  await expect(field).toHaveCount(0);
  greet();
  await expect(page.getByText("bob").first()).toBeVisible();
  await expect(field).toHaveValue("");
});
