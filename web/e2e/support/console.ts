/** Playwright's `test` with a server for each test, and a watch on everything the browser complains about. */
import AxeBuilder from "@axe-core/playwright";
import { test as base, expect, type BrowserContext, type Locator, type Page } from "@playwright/test";
import { PRINTED, SEEN } from "./failures.js";
import { startServer, type Server, type ServerOptions, type Turn } from "./server.js";

interface Fixtures {
  serve: (options: ServerOptions) => Promise<Server>;
  /** Complaints that a test expects, because it takes the server away. */
  tolerate: RegExp[];
  watched: string[];
}

/**
 * Chromium now and then asks again for the images a page shows, as if a script did, which the policy refuses. Nothing of
 * the console connects to such an address, and one that did would be told so by its own failure.
 */
const BROWSERS_OWN = [/^error: Connecting to 'data:image\//, /^error: CSP: connect-src data\b/];

export const test = base.extend<Fixtures>({
  serve: async ({ context }, use, info) => {
    const servers: Server[] = [];
    await use(async (options) => {
      const server = await startServer(options);
      servers.push(server);
      return server;
    });
    if (info.errors.length > 0) {
      for (const page of context.pages()) await info.attach(SEEN, { body: await seen(page) });
      for (const server of servers) await info.attach(PRINTED, { body: server.printed() });
    }
    // Pages first: they would complain about the server's end.
    for (const page of context.pages()) await page.close();
    for (const server of servers) await server.stop();
  },

  tolerate: async ({}, use) => use([]),

  watched: [
    async ({ context, tolerate }, use) => {
      const complaints: string[] = [];
      context.on("weberror", (e) => complaints.push(`uncaught: ${e.error().message}`));
      context.on("console", (m) => {
        if (m.type() === "error" || m.type() === "warning") complaints.push(`${m.type()}: ${m.text()}`);
      });
      // Reported on the console too, but only some of them.
      await context.addInitScript(() => {
        document.addEventListener("securitypolicyviolation", (e) =>
          console.error(`CSP: ${e.violatedDirective} ${e.blockedURI}`),
        );
      });
      await use(complaints);
      const tolerated = [...tolerate, ...BROWSERS_OWN];
      expect(complaints.filter((c) => !tolerated.some((t) => t.test(c)))).toEqual([]);
    },
    { auto: true },
  ],
});

const seen = (page: Page) =>
  page.locator("body").innerText({ timeout: 5_000 }).then((text) => `${text}\n${page.url()}`, (e) => `${page.url()}: ${e}`);

export { expect };

export const call = (args: string): Turn => ({ text: "Here is the order.", calls: [{ name: "execute_trade", args }] });
export const order = '{"symbol":"VNM","quantity":100,"price":82000.10,"order_ref":9007199254740993}';
/** Ask for one order, then report what came back. */
export const oneOrder: Turn[] = [call(order), { text: "Result: {{ last_tool_result }}" }];

export async function send(page: Page, text = "Buy 100 VNM"): Promise<void> {
  const field = page.getByLabel("Message to the agent");
  await field.fill(text);
  // The last words of a turn come before its end, and until then Enter does nothing.
  await expect(page.getByRole("button", { name: "Send", exact: true })).toBeEnabled();
  await field.press("Enter");
}

/** Leave for a new session. The page that is left has a field for messages too. */
export async function newSession(page: Page): Promise<void> {
  await page.getByRole("link", { name: "New session" }).click();
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
}

/** Open the console, start a session, wait for its request. */
export async function openCard(page: Page, url: string): Promise<Locator> {
  await page.goto(url);
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
  await send(page);
  const card = page.locator(".card");
  await expect(card.getByRole("button", { name: "Approve" }).first()).toBeEnabled();
  // Its times come a moment later, and move what is below them.
  await expect(card.locator(".card-asked time").first()).toBeVisible();
  return card;
}

/** Send `content` to an agent in a session of its own, without a page. */
export async function begin(url: string, session: string, content = `Order ${session}`, person?: string): Promise<void> {
  const response = await fetch(`${url}/v1/sessions/${session}/messages`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(person ? { authorization: `Bearer ${person}-token` } : {}) },
    body: JSON.stringify({ content }),
  });
  expect(response.status).toBe(200);
}

/** The same in many sessions, some at a time, in no order. */
export async function beginAll(url: string, sessions: readonly string[]): Promise<void> {
  for (let at = 0; at < sessions.length; at += 25) await Promise.all(sessions.slice(at, at + 25).map((id) => begin(url, id)));
}

/** Give a tab the token of somebody, as if they had signed in there before. */
export async function signIn(page: Page, name: string): Promise<void> {
  await page.addInitScript((token) => {
    if (sessionStorage.getItem("e2e:signed-in")) return; // A reload keeps what the page has made of it.
    sessionStorage.setItem("e2e:signed-in", "yes");
    sessionStorage.setItem("countersign:token", token);
  }, `${name}-token`);
}

/** A tab of somebody, at a session that somebody else began. */
export async function tabOf(context: BrowserContext, name: string, url: string): Promise<Page> {
  const page = await context.newPage();
  await signIn(page, name);
  await page.goto(url);
  return page;
}

/** Keeps this page from polling, however long it stays open: it learns only what is pushed to it. */
export async function neverByItself(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const [begin, long] = [window.setTimeout, 15_000];
    window.setTimeout = ((then: TimerHandler, ms = 0, ...args: unknown[]) => (ms < long ? begin(then, ms, ...args) : 0)) as typeof setTimeout;
  });
}

/** Nothing that axe finds against WCAG 2.2 AA. */
export async function checkAccessible(page: Page, where: string): Promise<void> {
  // Colours that are still fading would be measured half way. How long that takes depends on the machine.
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.evaluate(async () => {
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    await frame();
    await frame();
    await Promise.allSettled(document.getAnimations().map((animation) => animation.finished));
  });
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
  // In the page itself: it has no frames, for which axe would open a blank page each time.
  const { violations } = await new AxeBuilder({ page }).withTags(tags).setLegacyMode().analyze();
  const found = violations.map((v) => `${where}: ${v.id} (${v.impact}) ${v.nodes.map((n) => n.target).join(" | ")}`);
  expect(found).toEqual([]);
}

export interface Question {
  question: string;
  header?: string;
  multiSelect?: boolean;
  options: { label: string; description?: string; input?: boolean }[];
}

export const ask = (...questions: Question[]): Turn => ({
  calls: [{ name: "ask_user_question", args: JSON.stringify({ questions }) }],
});

export const goal: Question = {
  question: "What do you want to reach?",
  header: "Goal",
  options: [
    { label: "Steady dividends (Recommended)", description: "Shares that pay every year" },
    { label: "Long-term growth" },
  ],
};
export const horizon: Question = { question: "For how long?", options: [{ label: "Over 3 years" }, { label: "1-3 years" }] };
export const sectors: Question = {
  question: "Which sectors?",
  multiSelect: true,
  options: [{ label: "Banks" }, { label: "Steel" }, { label: "Technology" }],
};

/** Open the console, start a session, wait for its questions. */
export async function openQuestion(page: Page, url: string): Promise<Locator> {
  await page.goto(url);
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
  await send(page, "Plan my savings");
  const card = page.locator(".card[data-kind=question]");
  await expect(card.getByRole("button", { name: "Skip" })).toBeEnabled();
  return card;
}

export const resolved = (page: Page) => page.locator(".resolved");

export async function hasNoSidewaysScroll(page: Page): Promise<void> {
  const wider = await page.evaluate(() => {
    const root = document.scrollingElement!;
    const chat = document.querySelector(".chat-scroll");
    return [root.scrollWidth - root.clientWidth, chat ? chat.scrollWidth - chat.clientWidth : 0];
  });
  expect(wider).toEqual([0, 0]);
}
