/** A fresh app of somebody's own: the packed packages and Vite, installed into a folder of their own, built there, and used. */
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { examples, freshFolder, run } from "../test/fresh.js";
import { call, expect, order, test } from "./support/console.js";
import { serveFolder } from "./support/page.js";

const OURS = "http://127.0.0.1:7410";

test("u2: the README's page is built by a fresh app's own Vite from the installed packages, and approves what it shows", async ({ page, serve }) => {
  test.setTimeout(300_000);
  const folder = await freshFolder(["lossless-json", "react", "react-dom", "vite"]);
  // It is served before it is built: the server has to know its origin, and the page the server.
  await mkdir(join(folder, "dist"));
  const site = await serveFolder(join(folder, "dist"));
  try {
    const { url } = await serve({ turns: [call(order), { text: "Result: {{ last_tool_result }}" }], origins: [site.origin] });
    const [code = ""] = await examples("react", "tsx");
    expect(code).toContain(OURS);
    await writeFile(join(folder, "main.tsx"), code.replace(OURS, url));
    await writeFile(join(folder, "index.html"), '<!doctype html><html lang="en"><title>Fresh</title><div id="root"></div><script type="module" src="/main.tsx"></script></html>');
    // Nothing of this repository is in its way.
    await run(join(folder, "node_modules/.bin/vite"), ["build", "--logLevel", "error"], { cwd: folder, timeout: 120_000 });
    const [script = ""] = (await readdir(join(folder, "dist/assets"))).filter((name) => name.endsWith(".js"));
    // Of the client, `historyOf`, which the page does not use.
    expect(await readFile(join(folder, "dist/assets", script), "utf8")).not.toContain("submittedDecisions");

    await page.goto(site.origin);
    await page.getByRole("button", { name: "Buy" }).click();
    const card = page.locator('main [data-countersign="card"]');
    // The arguments are a table, and are edited in a form.
    await expect(card.locator('[data-part="arg"] > dt')).toHaveText(["symbol", "quantity", "order_ref", "price"]);
    await expect(card.locator('[data-part="args"]')).toContainText("9007199254740993");
    await card.getByRole("radio", { name: "Edit" }).check();
    await expect(card.getByLabel("quantity")).toHaveValue("100");
    await expect(page.locator('aside [data-countersign="card"]')).toHaveCount(1, { timeout: 30_000 });
    await card.getByRole("radio", { name: "Approve" }).check();
    await card.getByRole("button", { name: "Send" }).click();
    await expect(page.getByText("Result:")).toContainText("82000.10");
  } finally {
    await site.stop();
    await rm(folder, { recursive: true, force: true });
  }
});
