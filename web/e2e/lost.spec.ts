/** Sessions that the server has lost while a page shows them: its store is in memory, or was restored from a backup. */
import { begin, expect, oneOrder, openCard, test } from "./support/console.js";
import { quietPort } from "./support/server.js";

test("r7: of a session that the server has lost the page shows nothing, and all of one that is there under its id again", async ({ page, serve, tolerate }) => {
  tolerate.push(/WebSocket connection|Failed to load resource|ERR_CONNECTION/);
  let away = false;
  await page.routeWebSocket(/\/v1\/ws$/, (socket) => void (away ? socket.close() : socket.connectToServer()));
  const server = await serve({ turns: oneOrder, helper: [{ text: "Nothing to do." }], store: "memory:", port: await quietPort() });
  const loseAll = async () => {
    await server.kill();
    await server.restart();
  };
  const card = await openCard(page, server.url);
  const missing = page.getByText("This session does not exist, or you may not see it.");
  await loseAll();
  await expect(missing).toBeVisible();
  await expect(card).toHaveCount(0);
  await expect(page.getByText("Buy 100 VNM")).toHaveCount(0);

  // A message would make another one, by accident.
  await expect(page.getByLabel("Message to the agent")).toHaveCount(0);

  // There is another one when the page comes back.
  const id = new URL(page.url()).hash.split("/").at(-1)!;
  away = true;
  await loseAll();
  await begin(server.url, id, "Buy them after all");
  away = false;
  await expect(card).toBeVisible();
  await expect(missing).toHaveCount(0);
  await expect(page.getByText("Buy 100 VNM")).toHaveCount(0);

  // And then a shorter one.
  away = true;
  await loseAll();
  const body = JSON.stringify({ agent: "helper", content: "What is to be done?" });
  await fetch(`${server.url}/v1/sessions/${id}/messages`, { method: "POST", headers: { "content-type": "application/json" }, body });
  away = false;
  await expect(page.getByText("Nothing to do.")).toBeVisible();
  await expect(page.getByRole("heading", { name: "What is to be done?" })).toBeVisible();
  await expect(page.getByText("Buy them after all")).toHaveCount(0);
  await expect(card).toHaveCount(0);
});
