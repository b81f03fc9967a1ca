/** The inbox: all pending requests, however many; searching, and deciding one by one or many at once. */
import type { Page } from "@playwright/test";
import {
  ask,
  begin,
  beginAll,
  call,
  checkAccessible,
  expect,
  goal,
  hasNoSidewaysScroll,
  order,
  signIn,
  tabOf,
  test,
} from "./support/console.js";
import type { ServerOptions } from "./support/server.js";
import { placesOf } from "./support/words.js";

/** An order of whatever the agent was told, with a line of the operator's about it. */
const orders: ServerOptions = {
  turns: [call('{"symbol":"{{ last_user }}","quantity":100,"price":82000.10}'), { text: "Result: {{ last_tool_result }}" }],
  says: "template",
  timeout: 3000,
};
const rows = (page: Page) => page.locator(".inbox-row");
const titles = (page: Page) => page.locator(".inbox-title");
const pane = (page: Page) => page.getByRole("region", { name: "Open request" });
const heading = (page: Page) => pane(page).locator(".card-head h2");
const said = (page: Page) => page.locator("[role=status].visually-hidden");
/** A request that opens on its own ignores keys for a moment: they may have been meant for the one before. */
const settled = (page: Page) => expect(page.locator("[data-settling] .inbox-pane")).toHaveCount(0);

/** Press a key, and once more at the moment when the card with this title has opened on its own. */
async function pressOnNext(page: Page, key: string, title: string): Promise<void> {
  type Pressing = Window & { pressed?: Promise<void> };
  await page.evaluate(
    ([key, title]) => {
      (window as Pressing).pressed = new Promise((resolve) => {
        const observer = new MutationObserver(() => {
          const card = document.querySelector("[data-settling] .inbox-pane .card");
          if (card?.querySelector(".card-head h2")?.textContent !== title) return;
          observer.disconnect();
          card.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
          resolve();
        });
        observer.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
      });
    },
    [key, title] as const,
  );
  await page.keyboard.press(key);
  await page.evaluate(() => (window as Pressing).pressed);
}

/** A server with pending orders, the first with the soonest deadline. */
async function waiting(serve: (options: ServerOptions) => Promise<{ url: string }>, symbols: string[], more: Partial<ServerOptions> = {}) {
  const { url } = await serve({ ...orders, ...more });
  for (const symbol of symbols) await begin(url, symbol.toLowerCase().replace(/[^a-z]/g, "").slice(0, 30), symbol);
  return url;
}

/** The decisions of this page, as sent to the server. */
function decisionsOf(page: Page): { approval_key: string; decisions: { type: string; digest?: string; args_digest?: string; message?: string }[] }[] {
  const sent: ReturnType<typeof decisionsOf> = [];
  page.on("websocket", (socket) =>
    socket.on("framesent", ({ payload }) => {
      const frame = JSON.parse(String(payload));
      if (frame.decisions) sent.push(frame);
    }),
  );
  return sent;
}

test("u1: 300 requests are counted, listed by their deadline, searched and walked through at once", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(order)], timeout: 3000 });
  // The oldest request is the first to time out.
  await begin(url, "first");
  await beginAll(url, Array.from({ length: 299 }, (_, i) => `s${i}`));

  await page.goto(url);
  await expect(page.locator(".sidebar .count [aria-hidden]")).toHaveText("300");
  await expect(page).toHaveTitle("(300) Countersign");
  await page.getByRole("link", { name: "Inbox" }).click();
  await expect(page).toHaveURL(/#\/inbox$/);
  await expect(page.locator(".inbox-count")).toHaveText("Requests: 300. The soonest deadline comes first.");
  await expect(page.locator(".inbox-tabs [aria-current]")).toHaveText("For you 300");
  await expect(rows(page)).toHaveCount(50);
  await expect(rows(page).first()).toHaveAttribute("id", "row-first_1");
  await checkAccessible(page, "a long inbox");
  const more = page.locator(".inbox-list").getByRole("button", { name: "Show more" });
  for (const shown of [100, 150, 200, 250, 300]) {
    await more.click();
    await expect(rows(page)).toHaveCount(shown);
  }
  await expect(more).toHaveCount(0);

  // With all of them drawn.
  const search = page.getByRole("searchbox", { name: "Search requests" });
  await search.fill("execute s299");
  await expect(page.getByText("No request matches.")).toBeVisible();
  await search.fill("s298");
  await expect(rows(page)).toHaveCount(1);
  await search.fill("");
  await expect(rows(page)).toHaveCount(300);
  await search.blur();
  await page.keyboard.press("j");
  await expect(page).toHaveURL(/open=first_1/);
  await expect(pane(page).getByRole("button", { name: "Approve" })).toBeVisible();
  await page.keyboard.press("a");
  await expect(page.locator(".sidebar .count [aria-hidden]")).toHaveText("299");
});

test("beyond some hundreds the numbers say that there are more, and what they cover", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(order)], timeout: 3000 });
  await beginAll(url, Array.from({ length: 510 }, (_, i) => `s${i}`));
  await page.goto(url);
  await expect(page.locator(".sidebar .count [aria-hidden]")).toHaveText("500+");
  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator(".topbar").getByRole("link", { name: "Inbox. Waiting requests: 500+" }).click();
  await expect(page.locator(".inbox-tabs [aria-current]")).toHaveText("For you 500+");
  await expect(page.getByText("The 500 requests nearest their deadline are loaded. Numbers, search and filters cover these.")).toBeVisible();
  await hasNoSidewaysScroll(page);
  await page.getByRole("button", { name: "Load more" }).click();
  await expect(page.locator(".inbox-tabs [aria-current]")).toHaveText("For you 510");
  await expect(page.getByRole("button", { name: "Load more" })).toHaveCount(0);
});

test("u1: rows and cards are called by the operator's line, and else by the tool", async ({ page, serve }) => {
  const url = await waiting(serve, ["VNM"], { turns: [{ calls: [...orders.turns[0]!.calls!, ...orders.turns[0]!.calls!] }, { text: "Done." }] });
  await page.goto(`${url}/#/inbox`);
  await expect(titles(page)).toHaveText(["Order VNM and 1 more"]);
  await rows(page).getByRole("link").click();
  await expect(heading(page)).toHaveText("2 actions need approval");
  await expect(pane(page).locator(".facts h3")).toHaveText(["Order VNM", "Order VNM"]);
});

test("x: what would deceive the eye in the operator's line is written out", async ({ page, serve }) => {
  const url = await waiting(serve, ["p\u0430y\u202eMNV"]);
  await page.goto(`${url}/#/inbox`);
  await expect(titles(page)).toHaveText(["Order p\\u{430}y\\u{202E}MNV"]);
  await rows(page).getByRole("link").click();
  await expect(heading(page)).toHaveText("Order p\\u{430}y\\u{202E}MNV");
});

test("u1: filters, search and groups are in the address, and a reload keeps them", async ({ page, context, serve }) => {
  const people = { alice: ["user"], carol: ["user"], bob: ["admin", "legal"] };
  const { url } = await serve({
    ...orders,
    people,
    approval: 'levels = ["admin"], risk = "low"',
    more: `[[policy.rules]]
tool = "execute_trade"
when = 'args.symbol.startsWith("H")'
require = true
levels = ["legal"]
risk = "high"
`,
  });
  await begin(url, "s1", "VNM", "alice");
  await begin(url, "s2", "HPG", "alice");
  await begin(url, "s3", "Mưa Đá", "carol");
  const bob = await tabOf(context, "bob", `${url}/#/inbox`);
  await expect(rows(bob)).toHaveCount(3);
  await expect(rows(bob).first()).toContainText("requested by alice");
  await expect(rows(bob).first()).toContainText("you decide as admin");

  await bob.getByLabel("Requested by").selectOption({ label: "alice (2)" });
  await expect(bob).toHaveURL(/#\/inbox\?requester=alice$/);
  await expect(titles(bob)).toHaveText(["Order VNM", "Order HPG"]);
  await expect(bob.locator(".inbox-count")).toHaveText("Requests: 2 of 3");
  await bob.getByLabel("Risk").selectOption("high");
  await expect(titles(bob)).toHaveText(["Order HPG"]);
  await expect(rows(bob).locator(".risk")).toHaveText("Risk: high");
  await bob.reload();
  await expect(titles(bob)).toHaveText(["Order HPG"]);
  await expect(bob.getByLabel("Risk")).toHaveValue("high");
  await bob.getByRole("button", { name: "Clear filters" }).click();
  await expect(bob).toHaveURL(/#\/inbox$/);
  await bob.getByLabel("Who decides").selectOption("legal");
  await expect(titles(bob)).toHaveText(["Order HPG"]);
  await bob.getByRole("button", { name: "Clear filters" }).click();

  // Without accents, and whichever case.
  await bob.getByRole("searchbox", { name: "Search requests" }).fill("order mua da");
  await expect(titles(bob)).toHaveText(["Order Mưa Đá"]);
  await expect(bob).toHaveURL(/q=order\+mua\+da/);
  await bob.getByRole("searchbox", { name: "Search requests" }).fill("nothing like it");
  await expect(bob.getByText("No request matches.")).toBeVisible();
  await bob.getByRole("link", { name: "Clear filters" }).click();
  // The page follows an address a moment later.
  await expect(rows(bob)).toHaveCount(3);

  await bob.getByLabel("Group").selectOption("requester");
  await expect(bob.locator(".inbox-group-head h2")).toHaveText(["alice (2)", "carol (1)"]);
  await bob.getByRole("checkbox", { name: "Select all 2 of alice" }).check();
  await expect(bob.getByText("Selected: 2")).toBeVisible();
  await checkAccessible(bob, "a grouped inbox");
  // With one tool and one agent there is nothing to choose between.
  await expect(bob.getByLabel("Tool", { exact: true })).toHaveCount(0);

  // A link opens one request; if it is decided, the page says how.
  await signIn(page, "alice");
  await page.goto(`${url}/#/inbox?open=s1_1`);
  await expect(heading(page)).toHaveText("Order VNM");
  await expect(pane(page).locator(".people")).toContainText("You can view this, but you may not decide it.");
});

test("u1: the inbox is filtered by tool, and a row says who has approved and when", async ({ page, serve }) => {
  const pay = `
[tools.pay]
description = "Pay somebody."
command = ["/bin/cat"]
parameters = { type = "object" }
approval = { timeout = 3000, levels = ["legal"], quorum = 2 }
`;
  const people = { alice: ["user"], bob: ["admin", "legal"], eve: ["legal"] };
  const calls = [...orders.turns[0]!.calls!, { name: "pay", args: "{}" }];
  const { url } = await serve({ ...orders, turns: [{ calls }], people, approval: 'levels = ["admin"]', more: pay, tools: ["pay"] });
  for (const session of ["s1", "s2"]) await begin(url, session, "VNM", "alice");
  await signIn(page, "bob");
  await page.goto(`${url}/#/inbox`);
  await expect(rows(page)).toHaveCount(4);
  await page.getByLabel("Tool", { exact: true }).selectOption({ label: "pay (2)" });
  await expect(page).toHaveURL(/#\/inbox\?tool=pay$/);
  await expect(titles(page)).toHaveText(["pay", "pay"]);
  await expect(page.locator(".inbox-count")).toHaveText("Requests: 2 of 4");
  await page.reload();
  await expect(titles(page)).toHaveText(["pay", "pay"]);

  // Somebody else's vote appears in the row without a reload, and on the card with its time.
  const authorization = "Bearer eve-token";
  const asked = (await (await fetch(`${url}/v1/approvals?status=waiting&tool=pay&session_id=s1`, { headers: { authorization } })).json()) as {
    approvals: { approval_key: string }[];
  };
  const [{ approval_key: key } = { approval_key: "" }] = asked.approvals;
  const body = JSON.stringify({ decisions: [{ type: "approve" }] });
  const headers = { authorization, "content-type": "application/json" };
  expect((await fetch(`${url}/v1/approvals/${key}`, { method: "POST", headers, body })).status).toBe(200);
  await expect(page.locator(`#row-${key}`)).toContainText(/1 of 2 approved: eve \((now|\d+ seconds? ago)\)/);
  await page.locator(`#row-${key} a`).click();
  await expect(pane(page).locator(".talk-list")).toContainText("eve approved (1 of 2)");
  await expect(pane(page).locator(".talk-list time")).toHaveAttribute("datetime", /^20\d\d-.*Z$/);
  await page.getByLabel("Tool", { exact: true }).selectOption("execute_trade");
  await expect(titles(page)).toHaveText(["Order VNM", "Order VNM"]);
});

test("u1: a key that is pressed as soon as the list is there counts", async ({ page, serve }) => {
  await page.addInitScript(() => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector(".inbox-row")) return;
      observer.disconnect();
      document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true, cancelable: true }));
    }).observe(document, { childList: true, subtree: true });
  });
  const url = await waiting(serve, ["AAA", "BBB"]);
  await page.goto(url);
  // It is known before its page is drawn.
  await expect(page.locator(".sidebar .count [aria-hidden]")).toHaveText("2");
  await page.evaluate(() => void (location.hash = "#/inbox"));
  await expect(heading(page)).toHaveText("Order AAA");
});

for (const [width, height] of [
  [1280, 800],
  [390, 844],
] as const) {
  test(`u1: by keys alone, without looking for the focus, ${width} wide`, async ({ page, serve }) => {
    await page.setViewportSize({ width, height });
    const url = await waiting(serve, ["AAA", "BBB", "CCC", "DDD"]);
    await page.goto(`${url}/#/inbox`);
    await expect(rows(page)).toHaveCount(4);
    await page.keyboard.press("j");
    await expect(heading(page)).toHaveText("Order AAA");
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await expect(heading(page)).toHaveText("Order CCC");
    await page.keyboard.press("k");
    await expect(heading(page)).toHaveText("Order BBB");
    await expect(pane(page).locator(".inbox-pane-head")).toContainText("2 of 4");
    await checkAccessible(page, `an open request, ${width} wide`);
    await hasNoSidewaysScroll(page);

    // Pressed twice, it is for one request only. The second press comes as soon as the next request is there.
    await pressOnNext(page, "a", "Order CCC");
    await expect(pane(page).locator(".inbox-stored")).toContainText("Decision stored: Order BBB");
    await expect(said(page)).toHaveText("Decision stored: Order BBB Next: Order CCC");
    await settled(page);
    await expect(heading(page)).toHaveText("Order CCC");

    await page.keyboard.press("r");
    await page.keyboard.type("Too jarring");
    await page.keyboard.press("Escape");
    await expect(pane(page).getByRole("textbox")).toHaveCount(0);
    await expect(heading(page)).toHaveText("Order CCC");
    await page.keyboard.press("e");
    await expect(pane(page).locator("input:focus")).toHaveCount(1);
    await pane(page).getByLabel("quantity").fill("25");
    await pane(page).getByRole("button", { name: "Approve with changes" }).press("Enter");
    // The last in the list: on to the one above.
    await expect(heading(page)).toHaveText("Order DDD");
    await settled(page);
    await page.keyboard.press("a");
    await expect(heading(page)).toHaveText("Order AAA");
    await settled(page);
    await page.keyboard.press("Escape");
    await expect(page.locator("#row-aaa_1 a")).toBeFocused();
    await expect(rows(page)).toHaveCount(1);
    await page.keyboard.press("Enter");
    await expect(heading(page)).toHaveText("Order AAA");
    await page.keyboard.press("a");
    await expect(page.getByText("Nothing is waiting for you.")).toBeVisible();
    await expect(said(page)).toContainText("Nothing is left in this list.");
    await expect(page.locator(".inbox-stored")).toContainText("Order AAA");

    await page.locator(".inbox-stored").getByRole("link", { name: "Show it" }).press("Enter");
    await expect(pane(page).locator(".resolved")).toContainText("Approved");
  });
}

test("u1: ? shows the keys, and single letters can be switched off", async ({ page, serve }) => {
  const url = await waiting(serve, ["AAA"]);
  await page.goto(`${url}/#/inbox`);
  await expect(rows(page)).toHaveCount(1);
  await page.keyboard.press("?");
  const help = page.getByRole("dialog", { name: "Keyboard shortcuts" });
  await expect(help).toContainText("Reject the open request");
  await checkAccessible(page, "the keys");
  // The page behind it gets no keys.
  await page.keyboard.press("j");
  await expect(page).toHaveURL(/#\/inbox$/);
  await help.getByRole("checkbox", { name: "Single-letter shortcuts are on" }).uncheck();
  await page.keyboard.press("Escape");
  await expect(help).toHaveCount(0);
  await page.keyboard.press("j");
  await page.reload();
  await expect(rows(page)).toHaveCount(1);
  await page.keyboard.press("j");
  await expect(page).toHaveURL(/#\/inbox$/);
  // Nor does the card take them, which has the focus once its row is pressed, nor says that it does.
  await rows(page).getByRole("link").click();
  const card = pane(page).locator(".card");
  const approve = card.getByRole("button", { name: "Approve", exact: true });
  await expect(approve).toBeEnabled();
  await expect(card).toBeFocused();
  await page.keyboard.type("aer");
  await expect(approve).toBeEnabled();
  await expect(card.locator("[aria-keyshortcuts], .keys")).toHaveCount(0);
  await page.getByRole("button", { name: /^Shortcuts/ }).click();
  await help.getByRole("checkbox").check();
  await page.keyboard.press("Escape");
  await expect(help).toHaveCount(0);
  await expect(approve).toHaveAttribute("aria-keyshortcuts", "a");
  await page.keyboard.press("/");
  // Typed, not obeyed.
  await page.keyboard.type("jar");
  await expect(page.getByRole("searchbox", { name: "Search requests" })).toHaveValue("jar");
});

test("u1: many are approved at once, each shown with its digest, and each digest is sent", async ({ page, serve }) => {
  const url = await waiting(serve, ["AAA", "BBB", "CCC"]);
  const sent = decisionsOf(page);
  await page.goto(`${url}/#/inbox`);
  await expect(rows(page)).toHaveCount(3);
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await expect(page.getByText("Selected: 1")).toBeVisible();
  await page.getByRole("checkbox", { name: "Select: Order CCC" }).check();
  await page.getByRole("group", { name: "Selected requests" }).getByRole("button", { name: "Approve…" }).click();
  const dialog = page.getByRole("dialog", { name: "Requests to approve: 2" });
  await expect(dialog.getByRole("heading", { level: 3 })).toHaveText(["Order AAA", "Order CCC"]);
  await expect(dialog.locator(".shown-text")).toContainText(['"symbol": "AAA"', '"symbol": "CCC"']);
  const shown = await dialog.locator(".bulk-digest code").allTextContents();
  expect(new Set(shown.filter((digest) => /^[0-9a-f]{64}$/.test(digest))).size).toBe(2);
  await checkAccessible(page, "many to approve");
  await dialog.getByRole("button", { name: "Approve requests (2)" }).click();
  await expect(dialog).toHaveCount(0);
  await expect(titles(page)).toHaveText(["Order BBB"]);
  await expect(said(page)).toHaveText("Decisions stored: 2");
  await expect(page.locator(".inbox-stored")).toHaveText("Decisions stored: 2");
  await expect(page.locator(".inbox-stored")).toBeInViewport({ ratio: 1 });
  expect(sent.map((frame) => frame.approval_key)).toEqual(["aaa_1", "ccc_1"]);
  expect(sent.map((frame) => frame.decisions.map((one) => one.digest))).toEqual(shown.map((digest) => [digest]));
  expect(sent.every((frame) => frame.decisions.every((one) => one.type === "approve" && /^[0-9a-f]{64}$/.test(one.args_digest!)))).toBe(true);
  for (const session of ["aaa", "ccc"]) {
    await page.goto(`${url}/#/s/${session}`);
    await expect(page.locator(".markdown").last()).toContainText('"quantity":100');
  }
});

test("u1: many that need more approvals are not said to be approved", async ({ context, serve }) => {
  const people = { alice: ["user"], bob: ["admin"] };
  const { url } = await serve({ ...orders, people, approval: 'levels = ["admin"], quorum = 2' });
  for (const session of ["aaa", "bbb"]) await begin(url, session, session, "alice");
  const bob = await tabOf(context, "bob", `${url}/#/inbox`);
  await bob.getByRole("checkbox", { name: "Select all 2 shown" }).check();
  await bob.getByRole("button", { name: "Approve…" }).click();
  await bob.getByRole("dialog").getByRole("button", { name: "Approve requests (2)" }).click();
  await expect(bob.locator(".inbox-stored")).toHaveText("Decisions stored: 2");
  await bob.goto(`${url}/#/inbox?open=aaa_1`);
  await expect(pane(bob).locator(".card")).toContainText("1 of 2");
});

test("u1: the open request of a session that is deleted is over, not pending", async ({ page, serve, tolerate }) => {
  // The browser itself logs that the request is gone.
  tolerate.push(/410/);
  const url = await waiting(serve, ["AAA", "BBB"]);
  await page.goto(`${url}/#/inbox?open=aaa_1`);
  await expect(pane(page).getByRole("button", { name: "Approve", exact: true })).toBeEnabled();
  expect((await fetch(`${url}/v1/sessions/aaa`, { method: "DELETE" })).status).toBeLessThan(300);
  await expect(pane(page)).toContainText("This request no longer exists.");
  await expect(titles(page)).toHaveText(["Order BBB"]);
  await expect(pane(page).locator(".card")).toHaveCount(0);
  await expect(pane(page)).toContainText("This request no longer exists.");
});

test("u1: many are rejected with one reason, and what the server does not take is said of each", async ({ page, context, serve }) => {
  const url = await waiting(serve, ["AAA", "BBB"]);
  const sent = decisionsOf(page);
  await page.goto(`${url}/#/inbox`);
  await page.getByRole("checkbox", { name: "Select all 2 shown" }).check();
  await page.getByRole("button", { name: "Reject…" }).click();
  const dialog = page.getByRole("dialog", { name: "Requests to reject: 2" });
  await dialog.getByLabel("Reason for all of them").fill("Market closed");
  // Closed by mistake, it still has the reason.
  await page.keyboard.press("Escape");
  await expect(dialog).toHaveCount(0);
  await page.getByRole("button", { name: "Reject…" }).click();
  await expect(dialog.getByLabel("Reason for all of them")).toHaveValue("Market closed");
  // Somebody else is first with one of them.
  const other = await context.newPage();
  await other.goto(`${url}/#/inbox?open=bbb_1`);
  await pane(other).getByRole("button", { name: "Approve" }).click();
  await expect(other.locator(".inbox-stored")).toBeVisible();
  await dialog.getByRole("button", { name: "Reject requests (2)" }).click();
  await expect(dialog.getByRole("alert")).toHaveText("Decisions that the server did not accept: 1 of 2.");
  await expect(dialog.locator(".bulk-row").first()).toContainText("Your decision is stored.");
  await expect(dialog.locator(".bulk-row").last()).toContainText("already resolved: Approved.");
  await checkAccessible(page, "what was not taken");
  await dialog.getByRole("button", { name: "Close" }).last().click();
  await expect(page.getByText("Nothing is waiting for you.")).toBeVisible();
  expect(sent.map((frame) => frame.decisions[0]!.message)).toEqual(["Market closed", "Market closed"]);
});

test("x: of many, none is approved before each long one has been seen to its end", async ({ page, serve }) => {
  const { url } = await serve(orders);
  await begin(url, "long", "x".repeat(5000));
  await begin(url, "short", "VNM");
  await page.goto(`${url}/#/inbox`);
  await page.getByRole("checkbox", { name: "Select all 2 shown" }).check();
  await page.getByRole("button", { name: "Approve…" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("button", { name: "Approve requests (2)" })).toBeDisabled();
  await dialog.getByRole("button", { name: "Show all" }).click();
  await expect(dialog.getByRole("button", { name: "Approve requests (2)" })).toBeEnabled();
});

test("u1: questions, and what may only be rejected, are not approved with many", async ({ page, serve }) => {
  const { url } = await serve({ ...orders, turns: [ask(goal), { text: "Thanks." }] });
  await begin(url, "s1");
  await page.goto(`${url}/#/inbox`);
  await expect(titles(page)).toHaveText([goal.question]);
  await expect(rows(page)).toContainText("The agent has a question");
  await expect(page.getByRole("checkbox")).toHaveCount(0);
  await page.keyboard.press("j");
  await pane(page).getByRole("radio").first().check();
  await pane(page).getByRole("button", { name: "Send answer" }).click();
  await expect(page.getByText("Nothing is waiting for you.")).toBeVisible();
});

test("u1: later hides a request here only, and it can be brought back", async ({ page, serve }) => {
  const url = await waiting(serve, ["AAA", "BBB"]);
  await page.goto(`${url}/#/inbox?open=aaa_1`);
  await pane(page).getByRole("button", { name: "Hide for now" }).click();
  await expect(heading(page)).toHaveText("Order BBB");
  await expect(said(page)).toContainText("Hidden until");
  await expect(titles(page)).toHaveText(["Order BBB"]);
  // It is still pending, but hidden for now.
  await expect(page.locator(".sidebar .count [aria-hidden]")).toHaveText("1");
  await page.reload();
  await expect(titles(page)).toHaveText(["Order BBB"]);
  await page.getByRole("link", { name: "Hidden 1" }).click();
  await expect(page).toHaveURL(/show=later/);
  await expect(rows(page)).toContainText("Back at");
  await checkAccessible(page, "what is put off");
  await rows(page).getByRole("link").click();
  await pane(page).getByRole("button", { name: "Show again" }).click();
  await expect(page.getByText("You have not hidden any requests.")).toBeVisible();
  await page.getByRole("link", { name: "For you 2" }).click();
  await expect(rows(page)).toHaveCount(2);
});

test("u1: what is put off is back in time", async ({ page, serve }) => {
  const { url } = await serve({ ...orders, timeout: 24 });
  // Open before its time runs.
  await page.goto(`${url}/#/inbox`);
  await expect(page.getByText("Nothing is waiting for you.")).toBeVisible();
  await begin(url, "aaa", "AAA");
  await rows(page).getByRole("link").click();
  await expect(pane(page).getByRole("button", { name: "Hide for now" })).toBeVisible();
  await page.keyboard.press("l");
  await expect(page.getByText("Nothing is waiting for you.")).toBeVisible();
  // After half of the time that was left: at its end it would be over, and not in the list.
  await expect(titles(page)).toHaveText(["Order AAA"]);
});

test("p1: rows say who has approved, and for whom they wait", async ({ page, context, serve }) => {
  const people = { alice: ["user"], bob: ["admin"], eve: ["admin"] };
  const { url } = await serve({ ...orders, people, approval: 'levels = ["admin"], quorum = 2' });
  await begin(url, "s1", "VNM", "alice");
  await signIn(page, "alice");
  await page.goto(`${url}/#/inbox`);
  await expect(page.getByText("Nothing is waiting for you.")).toBeVisible();
  await page.getByRole("link", { name: "For others to decide: 1" }).click();
  await expect(page).toHaveURL(/show=others/);
  await expect(rows(page)).toContainText("Waiting for admin");
  await expect(rows(page)).toContainText("0 of 2 approved");
  await expect(page.getByRole("checkbox")).toHaveCount(0);

  const bob = await tabOf(context, "bob", `${url}/#/inbox`);
  await rows(bob).getByRole("link").click();
  // Keys are for the request that is open, once it is there.
  await expect(pane(bob).getByRole("button", { name: "Approve" })).toBeVisible();
  await bob.keyboard.press("a");
  // A vote is all that bob can give.
  await expect(bob.locator(".inbox-tabs [aria-current]")).toHaveText("For you 0");
  await expect(rows(page)).toContainText("1 of 2 approved: bob");
  const eve = await tabOf(context, "eve", `${url}/#/inbox`);
  await expect(rows(eve)).toContainText("1 of 2 approved: bob");
  await expect(rows(eve)).toContainText("you decide as admin");
  await checkAccessible(eve, "a request that bob has approved");
});

test("who was first is said where the request was open, and nothing that was typed is lost", async ({ page, context, serve }) => {
  const url = await waiting(serve, ["AAA", "BBB"]);
  await page.goto(`${url}/#/inbox?open=aaa_1`);
  await pane(page).getByRole("button", { name: "Reject" }).click();
  await pane(page).getByRole("textbox").fill("Too expensive");
  const other = await context.newPage();
  await other.goto(`${url}/#/inbox?open=aaa_1`);
  await pane(other).getByRole("button", { name: "Approve" }).click();
  // It stays: no other request opens on its own unless this page has decided one.
  await expect(pane(page).locator(".late")).toContainText("Too expensive");
  await expect(pane(page).locator(".resolved")).toContainText("Approved");
  await expect(page).toHaveURL(/open=aaa_1/);
  await expect(titles(page)).toHaveText(["Order BBB"]);
  await page.keyboard.press("j");
  await expect(heading(page)).toHaveText("Order BBB");
});

for (const [language, name, tabs, choose, approve, keys] of [
  ["en", "Waiting for a decision", ["For you 3", "For others 0", "Hidden 0"], "Select all 3 shown", "Approve…", "Keyboard shortcuts"],
  ["vi", "Đang chờ quyết định", ["Chờ bạn 3", "Chờ người khác 0", "Tạm ẩn 0"], "Chọn cả 3 yêu cầu đang hiện", "Phê duyệt…", "Phím tắt trong mục Chờ xử lý"],
  ["zh", "等待决定", ["待您处理 3", "待他人处理 0", "已隐藏 0"], "选择显示的全部 3 个", "批准…", "待办中的快捷键"],
] as const) {
  for (const [, wide, colorScheme] of placesOf(language)) {
    const [width, height] = wide > 800 ? [wide, 800] : [360, 740];
    test.describe(`${language}, ${width} wide, ${colorScheme}`, () => {
      test.use({ viewport: { width, height }, colorScheme });
      test("u1: the inbox is told in every language, at every width", async ({ page, serve }) => {
        const url = await waiting(serve, ["VNM", "FPT ".repeat(30).trim(), "x".repeat(300)]);
        await page.addInitScript((l) => localStorage.setItem("countersign:language", l), language);
        await page.goto(`${url}/#/inbox`);
        await expect(page.getByRole("heading", { level: 1 })).toHaveText(name);
        await expect(page.locator(".inbox-tabs a")).toHaveText(tabs);
        await hasNoSidewaysScroll(page);
        await checkAccessible(page, "the list");
        await page.getByRole("checkbox", { name: choose }).check();
        await hasNoSidewaysScroll(page);
        await page.getByRole("button", { name: approve }).click();
        await expect(page.getByRole("dialog").locator(".bulk-row")).toHaveCount(3);
        await checkAccessible(page, "many at once");
        await hasNoSidewaysScroll(page);
        await page.keyboard.press("Escape");
        await page.keyboard.press("?");
        await expect(page.getByRole("dialog", { name: keys })).toBeVisible();
        await page.keyboard.press("Escape");
        await page.keyboard.press("j");
        await expect(page.locator(".inbox-pane .card")).toBeVisible();
        await hasNoSidewaysScroll(page);
        await checkAccessible(page, "an open request");
      });
    });
  }
}
