/** Images in messages: attached, shown, refused; and never loaded from somebody else's host. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { checkAccessible, expect, hasNoSidewaysScroll, send, test } from "./support/console.js";

/** A PNG of one pixel. */
const DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==";
const file = (name: string, buffer = Buffer.from(DOT, "base64")) => ({ name, mimeType: "image/png", buffer });
const answers = [{ text: "A dot." }, { text: "Another." }, { text: "Words." }];

test("x: an image is attached, sent, shown, and there after a reload", async ({ page, serve }) => {
  const { url } = await serve({ turns: answers });
  await page.goto(url);
  const attach = page.getByRole("button", { name: "Attach images" });
  await expect(attach).toBeVisible();
  const [picker] = await Promise.all([page.waitForEvent("filechooser"), attach.click()]);
  await picker.setFiles([file("a.png"), file("b.png")]);
  const attached = page.getByRole("list", { name: "Attached images" });
  await expect(attached.getByRole("listitem")).toHaveCount(2);
  await attached.getByRole("button", { name: "Remove image 2" }).click();
  await expect(attached.getByRole("listitem")).toHaveCount(1);
  await checkAccessible(page, "with an image attached");
  await send(page, "What is this?");

  const said = page.locator(".message.user");
  const image = said.getByRole("img", { name: "Image 1" });
  await expect(image).toHaveAttribute("src", `data:image/png;base64,${DOT}`);
  await expect(said.locator(".bubble")).toHaveText("What is this?");
  await expect(page.getByText("A dot.")).toBeVisible();
  await expect(page.getByRole("list", { name: "Attached images" })).toHaveCount(0);
  await checkAccessible(page, "with an image in a message");
  await page.reload();
  await expect(image).toBeVisible();
  await said.getByRole("button").click();
  await expect(said.getByRole("button")).toHaveAttribute("aria-expanded", "true");

  // An image alone is a message, too: pasted this time.
  await page.getByLabel("Message to the agent").evaluate((field, data) => {
    const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([bytes], "pasted.png", { type: "image/png" }));
    field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  }, DOT);
  await expect(page.getByRole("list", { name: "Attached images" }).getByRole("listitem")).toHaveCount(1);
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await expect(page.getByText("Another.")).toBeVisible();
  await expect(said.getByRole("img")).toHaveCount(2);
});

test("x: an image that is chosen while the page cannot load what reads it is not called unreadable", async ({ page, serve, tolerate }) => {
  tolerate.push(/Failed to load resource/);
  const { url } = await serve({ turns: answers });
  await page.route(/\/readImage-.*\.js/, (route) => route.abort());
  await page.goto(url);
  await expect(page.getByRole("button", { name: "Attach images" })).toBeVisible();
  await page.locator("input[type=file]").setInputFiles(file("a.png"));
  await expect(page.getByRole("alert")).toHaveText(/^A part of this page could not be loaded\./);
  await send(page, "Without it.");
  await expect(page.getByText("A dot.")).toBeVisible();
});

test("x: a large image is made smaller, and what is none is refused in words", async ({ page, serve }) => {
  const { url } = await serve({ turns: answers });
  await page.goto(url);
  const input = page.locator("input[type=file]");
  await expect(page.getByRole("button", { name: "Attach images" })).toBeVisible();
  // Noise, which nothing compresses. It is made where it is chosen: it would take long to get there.
  const bytes = await input.evaluate(async (field: HTMLInputElement) => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1700;
    const context = canvas.getContext("2d")!;
    const pixels = context.createImageData(1700, 1700);
    const { data } = pixels;
    for (let at = 0; at < data.length; at += 65_536) crypto.getRandomValues(data.subarray(at, at + 65_536));
    for (let at = 3; at < data.length; at += 4) data[at] = 255;
    context.putImageData(pixels, 0, 0);
    const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
    const chosen = new DataTransfer();
    chosen.items.add(new File([blob!], "large.png", { type: "image/png" }));
    field.files = chosen.files;
    field.dispatchEvent(new Event("change", { bubbles: true }));
    return blob!.size;
  });
  expect(bytes).toBeGreaterThan(1024 * 1024);
  const attached = page.getByRole("list", { name: "Attached images" }).getByRole("img");
  const src = (await attached.getAttribute("src"))!;
  expect(src).toMatch(/^data:image\/jpeg;base64,/);
  expect(src.length).toBeLessThan(720_000);

  await input.setInputFiles(file("no-image.png", Buffer.from("<svg xmlns='http://www.w3.org/2000/svg'/>")));
  await expect(page.getByRole("alert")).toContainText("not an image that can be sent");
  await expect(attached).toHaveCount(1);
  await send(page, "Look");
  await expect(page.getByText("A dot.")).toBeVisible();
});

test("x: an image at somebody else's host is a link, and its host hears nothing", async ({ page, serve, request }) => {
  const asked: string[] = [];
  const host = createServer((req, res) => {
    asked.push(req.url ?? "");
    res.end();
  });
  await new Promise<void>((ready) => host.listen(0, "127.0.0.1", ready));
  const { port } = host.address() as AddressInfo;
  const { url } = await serve({ turns: answers });
  const content = [{ type: "image", source: { type: "url", url: `http://127.0.0.1:${port}/spy.png` } }];
  const sent = await request.post(`${url}/v1/sessions/elsewhere/messages`, { data: { content } });
  expect(sent.ok()).toBe(true);
  await page.goto(`${url}/#/s/elsewhere`);
  const link = page.locator(".message.user").getByRole("link", { name: `Image at 127.0.0.1:${port}` });
  await expect(link).toHaveAttribute("href", `http://127.0.0.1:${port}/spy.png`);
  await expect(link).toHaveAttribute("rel", "noopener noreferrer");
  await expect(page.getByText("A dot.")).toBeVisible();
  await expect(page.locator(".message.user img")).toHaveCount(0);
  expect(asked).toEqual([]);
  await new Promise((closed) => host.close(closed));
});

test("x: nothing can be attached for a model that takes no images, and a refusal keeps the message", async ({ page, serve }) => {
  const { url } = await serve({ turns: answers, images: false });
  // As if the model had taken some when the page was loaded.
  await page.route("**/v1/agents", async (route) => {
    const response = await route.fetch();
    const text = (await response.text()).replace('"takes_images":false', '"takes_images":true');
    await route.fulfill({ response, body: text });
  });
  await page.goto(url);
  await page.locator("input[type=file]").setInputFiles(file("a.png"));
  await send(page, "What is this?");
  await expect(page.getByRole("alert")).toContainText("does not take images");
  await expect(page.getByRole("list", { name: "Attached images" }).getByRole("listitem")).toHaveCount(1);
  await expect(page.getByLabel("Message to the agent")).toHaveValue("What is this?");
  await page.unroute("**/v1/agents");
  await page.reload();
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
  await expect(page.getByRole("button", { name: "Attach images" })).toHaveCount(0);
});

test.describe("on a phone", () => {
  test.use({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });

  for (const language of ["en", "vi", "zh"]) {
    test(`x: images have room in ${language}`, async ({ page, serve }) => {
      const { url } = await serve({ turns: answers });
      await page.goto(url);
      await page.evaluate((l) => localStorage.setItem("countersign:language", l), language);
      await page.reload();
      await page.locator("input[type=file]").setInputFiles([1, 2, 3, 4, 5, 6, 7].map((n) => file(`${n}.png`)));
      await expect(page.locator(".attached li")).toHaveCount(7);
      await hasNoSidewaysScroll(page);
      await page.locator(".composer textarea").fill("?");
      await page.locator(".composer button[type=submit]").click();
      await expect(page.locator(".said-image")).toHaveCount(7);
      await hasNoSidewaysScroll(page);
    });
  }
});
