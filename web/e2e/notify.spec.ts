/** Notifications of the browser: only for those who want them, with nothing in them that others may not see. */
import type { BrowserContext, Page } from "@playwright/test";
import { ask, begin, call, checkAccessible, expect, goal, hasNoSidewaysScroll, order, signIn, test } from "./support/console.js";
import { LANGUAGES, speak } from "./support/words.js";

interface Noted {
  title: string;
  tag: string;
  body: string;
  closed: boolean;
}
declare global {
  interface Window {
    noted: (Noted & { onclick?: () => void })[];
    outOfSight: boolean;
  }
}

/** The browser's own notifications, each of them noted; and a page that can be put out of sight. */
async function watch(page: Page): Promise<void> {
  await page.addInitScript(() => {
    window.noted = [];
    window.outOfSight = false;
    Object.defineProperty(document, "hidden", { get: () => window.outOfSight });
    const Real = window.Notification;
    class Watched extends Real {
      constructor(title: string, options: NotificationOptions = {}) {
        super(title, options);
        const note = { title, tag: options.tag ?? "", body: options.body ?? "", closed: false };
        window.noted.push(note);
        const close = this.close.bind(this);
        this.close = () => {
          note.closed = true;
          close();
        };
        Object.defineProperty(note, "onclick", { get: () => () => this.onclick?.(new Event("click")), enumerable: false });
      }
    }
    window.Notification = Watched;
  });
}
const noted = (page: Page): Promise<Noted[]> => page.evaluate(() => window.noted.map(({ title, tag, body, closed }) => ({ title, tag, body, closed })));
const hide = (page: Page, hidden: boolean) =>
  page.evaluate((is) => {
    window.outOfSight = is;
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
const toggle = (page: Page) => page.getByRole("switch", { name: "Notify me of requests while this page is out of sight" });
const allow = (context: BrowserContext, url: string) => context.grantPermissions(["notifications"], { origin: url });

/** Makes a page that is out of sight, which polls rarely, read again at once. */
async function refreshed(page: Page): Promise<void> {
  await page.evaluate(() => new BroadcastChannel("countersign").postMessage("changed"));
}

test("u4: a request that I may decide is told while the page is out of sight, and opens when it is clicked", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: [call(order)], timeout: 3000, people: { alice: ["user"], bob: ["admin"] }, approval: 'levels = ["admin"]' });
  await allow(context, url);
  await watch(page);
  await signIn(page, "bob");
  await begin(url, "before", "Buy", "alice");
  await page.goto(url);
  await expect(page.locator(".sidebar .count [aria-hidden]")).toHaveText("1");
  await toggle(page).check();
  await expect(toggle(page)).toBeChecked();
  // A visible page notifies of nothing, and requests that were there before are not new.
  await begin(url, "seen", "Buy", "alice");
  await expect(page.locator(".sidebar .count [aria-hidden]")).toHaveText("2");
  expect(await noted(page)).toEqual([]);

  await hide(page, true);
  await begin(url, "s3", "Buy", "alice");
  await refreshed(page);
  await expect.poll(() => noted(page)).toEqual([{ title: "Your decision is needed", tag: "s3_1", body: "execute_trade · trader", closed: false }]);
  // A click opens it.
  await page.evaluate(() => window.noted[0]!.onclick!());
  await expect(page).toHaveURL(/#\/inbox\?open=s3_1$/);
  await expect(page.locator(".card")).toBeVisible();
});

test("u4: what is decided elsewhere is told no longer; a question is told without its text", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: [ask(goal), { text: "Thanks." }], questionTimeout: 3000 });
  await allow(context, url);
  await watch(page);
  await page.addInitScript(() => localStorage.setItem("countersign:notify", "on"));
  await page.goto(url);
  await expect(toggle(page)).toBeChecked();
  await expect(page.getByText("Your conversations will be listed here.")).toBeVisible();
  await hide(page, true);
  await begin(url, "s1");
  await refreshed(page);
  await expect.poll(() => noted(page)).toEqual([{ title: "Your answer is needed", tag: "s1_1", body: "", closed: false }]);
  await fetch(`${url}/v1/approvals/s1_1?wait=true`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ answers: { [goal.question]: "Long-term growth" } }),
  });
  await refreshed(page);
  await expect.poll(async () => (await noted(page))[0]?.closed).toBe(true);
});

test("u4: who has not asked for them gets none, nor for what others decide", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: [call(order)], timeout: 3000, people: { alice: ["user"], bob: ["admin"] }, approval: 'levels = ["admin"]' });
  await allow(context, url);
  await watch(page);
  await signIn(page, "alice");
  await page.goto(url);
  await expect(toggle(page)).not.toBeChecked();
  await toggle(page).check();
  await hide(page, true);
  // Her own request, which somebody else decides.
  await begin(url, "s1", "Buy", "alice");
  await refreshed(page);
  await hide(page, false);
  await expect(page.locator(".session-row")).toHaveCount(1);
  expect(await noted(page)).toEqual([]);
  await toggle(page).uncheck();
  await page.reload();
  await expect(toggle(page)).not.toBeChecked();
});

for (const language of LANGUAGES) {
  test(`u4: a browser that does not allow them is not asked twice, and it is said in words, ${language}`, async ({ page, serve }) => {
    const t = await speak(page, language);
    const { url } = await serve({ turns: [] });
    await page.addInitScript(() => {
      Object.defineProperty(Notification, "permission", { get: () => "denied" });
    });
    await page.goto(url);
    const one = page.getByRole("switch", { name: t("notify.label") });
    await one.click();
    await expect(page.getByRole("alert")).toContainText(t("notify.denied"));
    await expect(one).not.toBeChecked();
    await checkAccessible(page, "notifications that are not allowed");
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByRole("button", { name: t("app.menu") }).click();
    await expect(one).toBeInViewport();
    await checkAccessible(page, "notifications that are not allowed, on a phone");
    await hasNoSidewaysScroll(page);
    if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/notify-${language}.png` });
  });
}
