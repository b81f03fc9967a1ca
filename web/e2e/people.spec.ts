/** Several people and one request: its reviewers, their comments, and standing rules. */
import type { Page } from "@playwright/test";
import {
  ask,
  begin,
  call,
  checkAccessible,
  expect,
  goal,
  hasNoSidewaysScroll,
  newSession,
  oneOrder,
  openCard,
  order,
  resolved,
  send,
  signIn,
  tabOf,
  test,
} from "./support/console.js";
import { press, seesFocus, withoutPointer, write } from "./support/keyboard.js";
import { person } from "./support/server.js";
import { speak } from "./support/words.js";

const people = { alice: ["user"], bob: ["admin"], eve: ["admin"], carol: ["manager"] };
const approve = (page: Page, name = "Approve") => page.locator(".card").getByRole("button", { name, exact: true });

/** Alice asks; the request's own address is where the others look. */
async function aliceAsks(page: Page, url: string): Promise<string> {
  await signIn(page, "alice");
  await page.goto(url);
  await expect(page.getByRole("combobox", { name: "Agent", exact: true })).toBeVisible();
  await send(page);
  await expect(page.locator(".card")).toBeVisible();
  return page.url();
}

test("two people approve in two tabs, and everybody sees how far they are", async ({ page, context, serve }) => {
  const { url } = await serve({
    turns: oneOrder,
    people: { ...people, alice: ["user", "admin"] },
    approval: 'levels = ["admin"], quorum = 2, not_self = true',
  });
  const session = await aliceAsks(page, url);
  await expect(page.locator(".people")).toContainText("You asked for this, so somebody else must approve it.");
  await expect(approve(page)).toBeDisabled();
  await expect(page.locator(".card").getByRole("button", { name: "Edit" })).toBeDisabled();
  await page.locator(".card").press("a");

  const bob = await tabOf(context, "bob", session);
  const eve = await tabOf(context, "eve", session);
  for (const tab of [page, bob, eve]) await expect(tab.locator(".people")).toContainText("0 of 2 approved");
  await expect(bob.locator(".people")).toContainText("The person who asked for this may not approve it.");
  await approve(bob).click();
  for (const tab of [page, bob, eve]) await expect(tab.locator(".people")).toContainText("1 of 2 approved: bob");
  await expect(bob.locator(".people")).toContainText("You have approved it. Somebody else must approve it too.");
  await expect(approve(bob)).toBeDisabled();
  await expect(bob.locator(".card").getByRole("button", { name: "Reject" })).toBeEnabled();
  await bob.reload();
  await expect(bob.locator(".people")).toContainText("1 of 2 approved: bob");
  await expect(approve(bob)).toBeDisabled();

  await approve(eve).click();
  for (const tab of [page, bob, eve]) {
    await expect(resolved(tab)).toContainText("Approved");
    await expect(resolved(tab)).toContainText("by eve");
    await expect(tab.locator(".markdown").last()).toContainText('"quantity":100');
  }
  await page.locator(".group-row").first().click();
  await page.locator(".resolved-row").click();
  await expect(resolved(page).locator(".talk-list")).toContainText("bob approved (1 of 2)");
});

test("each step says whose turn it is, and one person does not take two", async ({ page, context, serve }) => {
  const { url } = await serve({
    turns: oneOrder,
    people: { ...people, bob: ["admin", "manager"] },
    approval: 'levels = ["admin", "manager"]',
  });
  const session = await aliceAsks(page, url);
  await expect(page.locator(".people")).toContainText("Level 1 of 2: admin");
  const bob = await tabOf(context, "bob", session);
  await approve(bob).click();
  for (const tab of [page, bob]) await expect(tab.locator(".people")).toContainText("Level 2 of 2: manager");
  await expect(page.locator(".people-steps [aria-current=step]")).toContainText("manager");
  await expect(bob.locator(".people")).toContainText("You approved this at an earlier level, so somebody else must approve it now.");
  await expect(approve(bob)).toBeDisabled();
  await expect(bob.locator(".card").getByRole("button", { name: "Reject" })).toBeEnabled();
  const carol = await tabOf(context, "carol", session);
  await approve(carol).click();
  await expect(page.locator(".markdown").last()).toContainText('"quantity":100');
});

test("a comment appears in the other tab, says when, and survives a reload", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: oneOrder, people, approval: 'levels = ["admin"]' });
  const session = await aliceAsks(page, url);
  const bob = await tabOf(context, "bob", session);
  await page.getByRole("button", { name: "Comment for the other people" }).click();
  const field = page.getByLabel("Comment for the other people");
  await expect(field).toBeFocused();
  // Letters are text here, not decisions; and half a comment is kept.
  await field.pressSequentially("ar half");
  await page.reload();
  await page.getByRole("button", { name: "Comment for the other people" }).click();
  await expect(field).toHaveValue("ar half");
  await field.fill("The fund is ours. Is <b>82,000.10</b> right?\u202e");
  await page.getByRole("button", { name: "Post comment" }).click();
  await expect(page.getByRole("button", { name: "Comment for the other people" })).toBeFocused();

  for (const tab of [page, bob]) {
    const said = tab.locator(".talk-list li");
    await expect(said).toContainText("alice");
    await expect(said).toContainText("Is <b>82,000.10</b> right?⟨U+202E⟩");
    await expect(said.locator("time")).toHaveAttribute("datetime", /^20\d\d-/);
  }
  await bob.reload();
  await expect(bob.locator(".talk-list li")).toHaveCount(1);
  await bob.getByRole("button", { name: "Comment for the other people" }).click();
  const reply = bob.getByLabel("Comment for the other people");
  await expect(reply).toBeInViewport({ ratio: 1 });
  // Comments of others do not move the page for a person who is writing.
  await page.getByRole("button", { name: "Comment for the other people" }).click();
  await field.fill("Anybody?");
  await page.getByRole("button", { name: "Post comment" }).click();
  await expect(bob.locator(".talk-list li")).toHaveCount(2);
  await expect(reply).toBeInViewport({ ratio: 1 });
  await reply.fill("Yes, I have checked.");
  await bob.keyboard.press("Control+Enter");
  await expect(page.locator(".talk-list li")).toHaveText([/alice/, /alice.*Anybody\?/, /bob.*Yes, I have checked\./]);
  await expect(page.locator("[role=status].visually-hidden")).toContainText("bob commented: Yes, I have checked.");

  // The agent does not read the comments; people still find them later.
  await approve(bob).click();
  // Only then has the group closed around the request; until then the page shows older text.
  await expect(page.locator(".markdown").last()).toContainText('"quantity":100');
  await expect(page.locator(".topbar")).toContainText("Finished");
  await expect(page.locator(".markdown").last()).not.toContainText("checked");
  await page.locator(".group-row").first().click();
  await page.locator(".resolved-row").click();
  await expect(resolved(page).locator(".talk-list")).toContainText("Yes, I have checked.");
});

test("what a reviewer says to the agent is theirs, not the owner's", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: oneOrder, people, approval: 'levels = ["admin"]' });
  const session = await aliceAsks(page, url);
  const bob = await tabOf(context, "bob", session);
  await bob.getByRole("button", { name: "Add a comment" }).click();
  await bob.getByLabel("Comment for the agent").fill("Only this once");
  await approve(bob).click();
  for (const [tab, mine, theirs] of [
    [page, "Buy 100 VNM", "Only this once"],
    [bob, "Only this once", "Buy 100 VNM"],
  ] as const) {
    const author = tab === page ? "bob" : "alice";
    for (const reload of [false, true]) {
      if (reload) await tab.reload();
      await expect(tab.getByRole("article", { name: "You", exact: true })).toHaveText(mine);
      await expect(tab.getByRole("article", { name: author, exact: true })).toHaveText(`${author}${theirs}`);
    }
  }
});

test("an edit says that it is asked about again, and is refused where nobody could approve it then", async ({ page, context, serve }) => {
  const approval = 'levels = ["user", "admin"], not_self = true';
  const { url } = await serve({ turns: oneOrder, people: { alice: ["user"], bob: ["admin"] }, approval });
  const session = await aliceAsks(page, url);
  await approve(page).click();
  const bob = await tabOf(context, "bob", session);
  const card = bob.locator(".card");
  await card.getByRole("button", { name: "Edit" }).click();
  await expect(card).toContainText("from the first level: the session’s owner.");
  await expect(card).toContainText("You may not approve what you have changed: somebody else with the role “admin” must.");
  await card.getByLabel("quantity").fill("25");
  await card.getByRole("button", { name: "Send for approval" }).click();
  await expect(card.getByRole("alert")).toContainText("nobody could approve it then");
  // The request is unchanged, and Bob can still approve it or say what to change.
  await expect(card.getByLabel("quantity")).toHaveValue("25");
  await card.getByRole("button", { name: "Back" }).click();
  await approve(bob).click();
  await expect(page.locator(".markdown").last()).toContainText('"quantity":100');
});

test("with a second admin the same edit goes its way", async ({ page, context, serve }) => {
  const approval = 'levels = ["user", "admin"], not_self = true';
  const { url } = await serve({ turns: oneOrder, people, approval });
  const session = await aliceAsks(page, url);
  await approve(page).click();
  const bob = await tabOf(context, "bob", session);
  await bob.locator(".card").getByRole("button", { name: "Edit" }).click();
  await bob.locator(".card").getByLabel("quantity").fill("25");
  await bob.getByRole("button", { name: "Send for approval" }).click();
  await expect(resolved(bob).last()).toContainText("Changed and sent for approval again");
  await approve(page).click();
  await expect(page.locator(".people")).toContainText("Level 2 of 2: admin");
  const eve = await tabOf(context, "eve", session);
  await approve(eve).click();
  await expect(page.locator(".markdown").last()).toContainText('"quantity":25');
});

test("only who can decide is asked to, and everybody else is told who can", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: oneOrder, people, approval: 'levels = ["admin"], reassign = ["manager"]' });
  const session = await aliceAsks(page, url);
  const bob = await tabOf(context, "bob", session);
  await expect(page.locator(".people")).toContainText("You can view this, but you may not decide it.");
  await expect(page.locator(".card").getByRole("button", { name: /Approve|Edit|Reject|Make a rule|Reassign|comment for/ })).toHaveCount(0);
  await page.locator(".card").press("a");
  await expect(page.locator("[role=status].visually-hidden")).toHaveText("Waiting for admin");
  await expect(bob.locator("[role=status].visually-hidden")).toContainText("A new request is waiting for your decision");
  await expect(page.locator(".topbar-detail")).toContainText("Waiting for admin");
  await expect(page.locator(".composer-waits")).toHaveText("admin has to decide on this.");
  await expect(page.locator(".session-waiting")).toHaveText("Waiting for admin");
  await expect(page.locator(".sidebar .count")).toHaveCount(0);
  await expect(page).toHaveTitle("Countersign");
  await page.getByRole("link", { name: "Inbox" }).click();
  await expect(page.getByText("Nothing is waiting for you.")).toBeVisible();
  await page.getByRole("link", { name: "For others to decide: 1" }).click();
  await expect(page.locator(".inbox-row")).toContainText("Waiting for admin");
  await checkAccessible(page, "an inbox of others");
  await page.goto(session);
  // Talking about it is for everybody who sees it.
  await expect(page.getByRole("button", { name: "Comment for the other people" })).toBeVisible();

  await expect(bob.locator(".topbar-detail")).toContainText("Waiting for you");
  await expect(bob.locator(".composer-waits")).toHaveText("Decide on the request above to continue.");
  await expect(bob.locator(".session-waiting")).toHaveText("Waiting for you");
  await expect(bob.locator(".sidebar .count [aria-hidden]")).toHaveText("1");
  await expect(bob.locator(".card").getByRole("button", { name: "Reassign" })).toBeVisible();
  await approve(bob).click();
  await expect(page.locator(".markdown").last()).toContainText('"quantity":100');
  await expect(page.locator(".session-waiting")).toHaveCount(0);
});

test("u1: what only the session's owner may do is offered to nobody else", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: [...oneOrder.slice(0, 1), { error: "gone" }], people, approval: 'levels = ["admin"]' });
  const session = await aliceAsks(page, url);
  const bob = await tabOf(context, "bob", session);
  const field = (tab: Page) => tab.getByLabel("Message to the agent");
  const stop = (tab: Page) => tab.getByRole("button", { name: "Stop", exact: true });
  await expect(approve(bob)).toBeEnabled();
  await expect(bob.locator(".composer-waits")).toBeVisible();
  await expect(field(bob)).toHaveCount(0);
  await expect(stop(bob)).toHaveCount(0);
  await expect(field(page)).toBeVisible();
  await expect(stop(page)).toBeVisible();
  await approve(bob).click();
  for (const tab of [page, bob]) await expect(tab.locator(".turn-end")).toContainText("The turn failed.");
  await expect(page.locator(".turn-end").getByRole("button", { name: "Try again" })).toBeVisible();
  await expect(bob.locator(".turn-end").getByRole("button")).toHaveCount(0);
  await expect(bob.locator(".composer-hint")).toHaveText("Only the session’s owner can write here.");
  for (const [tab, forks] of [[page, true], [bob, false]] as const) {
    await tab.getByRole("button", { name: "Earlier points" }).click();
    const points = tab.getByRole("dialog").locator(".past-point");
    await expect(points.filter({ hasText: "bob decided" }).or(points.filter({ hasText: "You decided" }))).toHaveCount(1);
    const fork = points.getByRole("button", { name: /^Continue from here/ });
    if (forks) await expect(fork.first()).toBeEnabled();
    else await expect(fork).toHaveCount(0);
  }
  await checkAccessible(bob, "earlier points of somebody else's session");
});

test("an owner is known as one also where the list does not have the session any more", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder, people });
  const ask = (session: string) =>
    fetch(`${url}/v1/sessions/${session}/messages`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer alice-token" },
      body: JSON.stringify({ content: "Buy" }),
    });
  await ask("first");
  await Promise.all(Array.from({ length: 55 }, (_, i) => ask(`s${i}`)));
  await signIn(page, "alice");
  await page.goto(`${url}/#/s/first`);
  await expect(approve(page)).toBeEnabled();
  await expect(page.locator(".composer-waits")).toHaveText("Decide on the request above to continue.");
  await approve(page).click();
  await expect(resolved(page)).toContainText("Approved");
});

test("a question is its owner's, and others see it without a form", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: [...oneOrder.slice(0, 1), ask(goal), { text: "Done." }], people, approval: 'levels = ["admin"]' });
  const session = await aliceAsks(page, url);
  const bob = await tabOf(context, "bob", session);
  await approve(bob).click();
  const card = bob.locator(".card[data-kind=question]");
  await expect(card).toContainText("You can view this, but you may not decide it.");
  await expect(card).toContainText("Steady dividends (Recommended)");
  await expect(card.getByRole("radio")).toHaveCount(0);
  await expect(card.getByRole("button")).toHaveCount(0);
  await expect(bob.locator(".composer-waits")).toHaveText("The session’s owner has to answer this.");
  await page.locator(".card").getByRole("radio").first().check();
  await page.getByRole("button", { name: "Send answer" }).click();
  await expect(resolved(bob).last()).toContainText("Steady dividends");
});

test("what may not be approved any more is not sent", async ({ page, context, serve }) => {
  const calls = ["AAA", "BBB"].map((s) => ({ name: "execute_trade", args: `{"symbol":"${s}","quantity":50}` }));
  const { url } = await serve({ turns: [{ calls }, { text: "Done." }], people, approval: 'levels = ["admin"], quorum = 2' });
  const session = await aliceAsks(page, url);
  const bob = await tabOf(context, "bob", session);
  for (const i of [0, 1]) await bob.locator(".action").nth(i).getByRole("button", { name: "Approve", exact: true }).click();
  const sending = bob.getByRole("button", { name: "Send decisions" });
  await expect(sending).toBeEnabled();
  const other = await tabOf(context, "bob", session);
  await other.getByRole("button", { name: "Approve all" }).click();
  await expect(bob.locator(".people")).toContainText("You have approved it.");
  await expect(sending).toBeDisabled();
});

test("who loses a race is told, and keeps what they had typed", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: oneOrder, people, approval: 'levels = ["admin"]' });
  const session = await aliceAsks(page, url);
  const bob = await tabOf(context, "bob", session);
  const eve = await tabOf(context, "eve", session);
  await eve.locator(".card").getByRole("button", { name: "Reject" }).click();
  await eve.getByLabel("Reason").fill("Above the limit of the fund");
  await eve.getByRole("button", { name: "Add a comment" }).click();
  await eve.getByLabel("Comment for the agent").fill("Ask again tomorrow");
  await eve.getByRole("button", { name: "Comment for the other people" }).click();
  await eve.getByLabel("Comment for the other people").fill("Is this one ours?");
  await approve(bob).click();
  const late = eve.locator(".notice.late");
  await expect(eve.locator(".topbar")).toContainText("Finished");
  await expect(late).toContainText("This was resolved before you sent your reply.");
  await expect(late.locator(".quote")).toHaveText(["Above the limit of the fund", "Ask again tomorrow", "Is this one ours?"]);
  await expect(late).toBeVisible();
  await expect(resolved(eve)).toContainText("by bob");
  await eve.reload();
  await expect(late).toContainText("Above the limit of the fund");
  await checkAccessible(eve, "lost a race");
  await late.getByRole("button", { name: "Discard it" }).click();
  await expect(late).toHaveCount(0);
  await eve.reload();
  await expect(eve.locator(".topbar")).toContainText("Finished");
  await expect(eve.locator(".group-row").first()).toBeVisible();
  await expect(late).toHaveCount(0);
  await expect(bob.locator(".notice.late")).toHaveCount(0);
  await expect(page.locator(".notice.late")).toHaveCount(0);
});

test("what is handed to somebody is theirs to decide, or to hand back", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: oneOrder, people, approval: 'levels = ["admin"], reassign = ["manager"]' });
  const session = await aliceAsks(page, url);
  const bob = await tabOf(context, "bob", session);
  const eve = await tabOf(context, "eve", session);
  await bob.getByRole("button", { name: "Reassign" }).click();
  await expect(bob.getByLabel("Who decides instead")).toBeFocused();
  await expect(bob.getByLabel("Who decides instead")).toHaveValue("manager");
  await bob.getByLabel("Only this person").fill("carol");
  await bob.getByLabel("Why").fill("Above my limit");
  await bob.getByRole("button", { name: "Reassign" }).click();
  for (const tab of [page, bob, eve]) {
    await expect(tab.locator(".people")).toContainText("Who decides: manager");
    await expect(tab.locator(".people")).toContainText("Reassigned to carol by bob: nobody else can decide it now. “Above my limit”");
  }
  await expect(eve.locator(".people")).toContainText("You can view this, but you may not decide it.");
  await expect(approve(eve)).toHaveCount(0);

  const carol = await tabOf(context, "carol", session);
  await expect(carol.locator(".people")).toContainText("Reassigned to carol by bob");
  await expect(approve(carol)).toBeEnabled();
  await carol.getByRole("button", { name: "Reassign" }).click();
  await expect(carol.getByLabel("Who decides instead")).toHaveValue("admin");
  await carol.getByRole("button", { name: "Reassign" }).click();
  await expect(page.locator(".people")).toContainText("Who decides: admin");
  await approve(eve).click();
  await expect(resolved(page)).toContainText("by eve");
});

test("u1: handing over takes no pointer, on a phone and in another language", async ({ page, context, serve }) => {
  const { url } = await serve({ turns: oneOrder, people, approval: 'levels = ["admin"], reassign = ["manager"]' });
  await begin(url, "s1", "Buy", "alice");
  const t = await speak(page, "zh");
  await withoutPointer(page);
  await page.setViewportSize({ width: 390, height: 844 });
  await signIn(page, "bob");
  await page.goto(`${url}/#/s/s1`);
  const card = page.locator(".card");
  await press(page, card.getByRole("button", { name: t("hand.open") }));
  await expect(card.getByLabel(t("hand.role"))).toBeFocused();
  await write(page, card.getByLabel(t("hand.person")), "carol");
  await write(page, card.getByLabel(t("hand.reason")), "Above my limit");
  await press(page, card.getByRole("button", { name: t("hand.send") }));
  await expect(page.locator(".people")).toContainText(t("people.handedPerson", { to: "carol", by: "bob" }));
  await seesFocus(page);

  // And the new assignee decides it.
  const carol = await context.newPage();
  await speak(carol, "zh");
  await withoutPointer(carol);
  await signIn(carol, "carol");
  await carol.goto(`${url}/#/s/s1`);
  await press(carol, approve(carol, t("decide.approve")), "Enter", { movedOn: true });
  await expect(resolved(carol)).toContainText(t("resolved.by", { name: "carol" }));
});

for (const [language, colorScheme] of [
  ["en", "light"],
  ["vi", "dark"],
  ["zh", "light"],
] as const) {
  test.describe(`rules, ${language}, ${colorScheme}`, () => {
    test.use({ colorScheme });
    test("p4 u1: why a standing rule is suspended is said in the language of the page, and the page is accessible at two widths", async ({ page, serve }) => {
      const t = await speak(page, language);
      const server = await serve({ turns: oneOrder, people: { ...people, bob: ["admin", "legal"] }, approval: 'levels = ["admin"]' });
      await begin(server.url, "s1", "Buy", "alice");
      const body = JSON.stringify({ decisions: [{ type: "approve", always: { scope: "tool", until: "2099-01-31T00:00:00Z" } }] });
      const headers = { authorization: "Bearer bob-token", "content-type": "application/json" };
      expect((await fetch(`${server.url}/v1/approvals/s1_1`, { method: "POST", headers, body })).status).toBe(200);
      // He holds the role no longer.
      await server.edit((text) => text.replace(person("bob", ["admin", "legal"], "bob-token"), person("bob", ["legal"], "bob-token")));
      await expect
        .poll(async () => {
          const { rules } = (await (await fetch(`${server.url}/v1/rules`, { headers })).json()) as { rules: { suspension?: { code: string } }[] };
          return rules[0]?.suspension?.code;
        })
        .toBe("no_role");
      await signIn(page, "bob");
      await page.goto(`${server.url}/#/rules`);
      await expect(page.locator(".rule")).toContainText(t("rules.why.no_role", { name: "bob", role: "admin" }));
      for (const width of [1280, 390]) {
        await page.setViewportSize({ width, height: 844 });
        await checkAccessible(page, `a suspended rule, ${language}, ${width}`);
        await hasNoSidewaysScroll(page);
        if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/rules-${language}-${width}.png` });
      }
    });
  });
}

test("nobody decides in time: others are reminded and asked, and the card says so", async ({ page, context, serve }) => {
  const { url } = await serve({
    turns: oneOrder,
    // Carol is asked three times, one after the other, each time with a request of its own: she has more time than Bob had.
    people: { ...people, carol: ["manager", "board", "owners"] },
    timeout: 20,
    approval: 'levels = ["admin"], reminders = [1], on_timeout = { escalate = ["manager", "board", "owners"] }',
  });
  // Her page is open before any time runs.
  const carol = await tabOf(context, "carol", `${url}/#/inbox`);
  await expect(carol.getByText("Nothing is waiting for you.")).toBeVisible();
  await aliceAsks(page, url);
  await expect(page.locator(".people")).toContainText("Reminders sent: 1");
  await expect(page.locator(".people")).toContainText(/Nobody decided in time; now asked: (manager|board|owners)/);
  // The one that she opens may end before she has approved it.
  await expect(async () => {
    await carol.locator(".inbox-row").getByRole("link").click({ timeout: 10_000 });
    await approve(carol).click({ timeout: 10_000 });
  }).toPass();
  await expect(resolved(page).first()).toContainText("Nobody decided in time; now asked: manager");
  await expect(page.locator(".markdown").last()).toContainText('"quantity":100');
});

test("what is always approved for its arguments runs unasked, until the rule is revoked", async ({ page, serve }) => {
  const other = order.replace("100", "7");
  const { url } = await serve({
    // Each session plays it from its beginning.
    turns: [call(order), { text: "First." }, call(other), { text: "Second." }, call(order), { text: "Third." }],
    people,
  });
  await aliceAsks(page, url);
  const card = page.locator(".card");
  await card.getByRole("button", { name: "Make a rule…" }).click();
  await expect(card.getByLabel("This tool, in this session")).toBeFocused();
  await card.getByLabel("This tool, until a date").check();
  await expect(card.locator(".always-means")).toContainText("every call of execute_trade by trader, whatever its arguments");
  await expect(card.getByRole("button", { name: "Approve and make this rule" })).toBeDisabled();
  await page.keyboard.press("Escape");
  await expect(approve(page)).toBeFocused();
  await card.getByRole("button", { name: "Make a rule…" }).click();
  await card.getByLabel("This tool, with exactly these arguments").check();
  await expect(card.locator(".always-means")).toContainText("in all sessions of alice");
  await expect(card.locator(".always-means")).toContainText("It stays in force until somebody revokes it under");
  await card.getByRole("button", { name: "Approve and make this rule" }).click();
  await expect(page.locator(".markdown").last()).toHaveText("First.");

  await newSession(page);
  await send(page, "The same again");
  await expect(page.locator(".markdown").last()).toHaveText("First.");
  await expect(page.locator(".message.user")).toHaveText(["The same again"]);
  await expect(page.locator(".tool-status")).toHaveText("done");
  await expect(resolved(page)).toHaveCount(0);
  await send(page, "Something else");
  await approve(page).click();
  await expect(page.locator(".markdown").last()).toHaveText("Second.");
  const session = page.url();

  await page.getByRole("link", { name: "Standing rules" }).click();
  const rule = page.locator(".rule");
  await expect(rule).toHaveCount(1);
  await expect(rule.getByRole("heading")).toContainText("Approves execute_trade with exactly these arguments");
  await expect(rule.locator(".rule-args")).toContainText('"order_ref": 9007199254740993');
  await expect(rule.locator(".rule-args")).toContainText('"price": 82000.10');
  await expect(rule).toContainText("by alice");
  // And with which request.
  await expect(rule.locator("dd code")).toHaveText(/_1$/);
  await rule.getByRole("button", { name: "Revoke" }).click();
  await expect(page.getByText("There are no standing rules.")).toBeVisible();
  await page.getByRole("button", { name: "Revoked", exact: true }).click();
  await expect(rule).toContainText("Revoked or replaced");
  await expect(rule.getByRole("button", { name: "Revoke" })).toHaveCount(0);
  await page.reload();
  await expect(page.getByText("There are no standing rules.")).toBeVisible();

  await page.goto(session);
  await send(page, "And once more");
  await expect(card).toBeVisible();
});

test("always reject until a day", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(order), { text: "First." }, call(order), { text: "Second." }] });
  const card = await openCard(page, url);
  await card.getByRole("button", { name: "Make a rule…" }).click();
  await card.getByRole("group", { name: "Decision" }).getByRole("button", { name: "Reject" }).click();
  await card.getByLabel("Reason").fill("Never buy this");
  await card.getByLabel("This tool, until a date").check();
  await card.getByLabel("Until the end of").fill("2020-01-31");
  await expect(card.getByText("This day has already passed.")).toBeVisible();
  await card.getByLabel("Until the end of").fill("2099-12-31");
  await expect(card.locator(".always-means")).toContainText("December 31, 2099");
  await card.getByRole("button", { name: "Reject and make this rule" }).click();
  await expect(resolved(page)).toContainText("Rejected: Never buy this");
  await send(page, "Again");
  await expect(page.locator(".markdown").last()).toHaveText("Second.");
  await expect(page.locator(".tool-status").last()).toHaveText("rejected");
  await page.goto(`${url}/#/rules`);
  await expect(page.locator(".rule")).toContainText("Rejects execute_trade whatever its arguments");
  await expect(page.locator(".rule")).toContainText("Never buy this");
  await expect(page.locator(".rule")).toContainText("2099");
});

test("of several actions one is decided for later too", async ({ page, serve }) => {
  const { url } = await serve({
    turns: [{ calls: ["AAA", "BBB"].map((s) => ({ name: "execute_trade", args: `{"symbol":"${s}","quantity":1}` })) }, { text: "Done." }],
  });
  const card = await openCard(page, url);
  await card.getByRole("button", { name: "Make a rule…" }).first().click();
  await card.getByLabel("This tool, with exactly these arguments").check();
  await card.getByRole("button", { name: "Mark: approve and make this rule" }).click();
  await expect(card.getByText("Standing rule: This tool, with exactly these arguments")).toBeVisible();
  await expect(card.getByText("1 of 2 decided")).toBeVisible();
  await card.getByRole("button", { name: "Reject", exact: true }).last().click();
  await card.getByRole("button", { name: "Send decisions" }).click();
  await expect(page.locator(".tool-status")).toHaveText(["done", "rejected"]);
  await page.getByRole("link", { name: "Standing rules" }).click();
  await expect(page.locator(".rule")).toHaveCount(1);
  await expect(page.locator(".rule-args")).toContainText('"AAA"');
});

test("a token that is taken away leads to the token form, and a new one back", async ({ page, serve, tolerate }) => {
  tolerate.push(/401/, /WebSocket connection to/);
  const server = await serve({ turns: oneOrder, people });
  await aliceAsks(page, server.url);
  await server.edit((text) => text.replace(person("alice", ["user"], "alice-token"), ""));
  const field = page.getByLabel("Access token");
  await expect(field).toBeVisible();
  await expect(page.getByRole("alert")).toContainText("Your token is not valid any more.");
  await expect(page.locator(".chat")).toHaveCount(0);
  await checkAccessible(page, "token ended");
  expect(await page.evaluate(() => sessionStorage.getItem("countersign:token"))).toBeNull();

  await server.edit((text) => text + person("alice", ["user"], "another-token"));
  await expect(async () => {
    const { status } = await fetch(`${server.url}/v1/sessions`, { headers: { authorization: "Bearer another-token" } });
    expect(status).toBe(200);
  }).toPass();
  await field.fill("another-token");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.locator(".card")).toBeVisible();
  await approve(page).click();
  await expect(resolved(page)).toContainText("Approved");
});

const busy = 'levels = ["user", "admin"], quorum = 2, not_self = true, reassign = ["manager"], reminders = [1]';
/** A request at its second step, with a comment, a vote and a reminder. */
async function atSecondStep(page: Page, url: string): Promise<string> {
  const session = await aliceAsks(page, url);
  await approve(page).click();
  await expect(page.locator(".people")).toContainText("Level 2 of 2: admin");
  await page.getByRole("button", { name: "Comment for the other people" }).click();
  await page.getByLabel("Comment for the other people").fill("Please look at the price before you approve it.");
  await page.getByRole("button", { name: "Post comment" }).click();
  return session;
}

for (const colorScheme of ["light", "dark"] as const) {
  test.describe(`accessibility, ${colorScheme}`, () => {
    test.use({ colorScheme });
    test("axe finds nothing where several people decide", async ({ page, context, serve }) => {
      const { url } = await serve({ turns: oneOrder, people, approval: busy });
      const session = await atSecondStep(page, url);
      const bob = await tabOf(context, "bob", session);
      await approve(bob).click();
      await expect(bob.locator(".people")).toContainText("1 of 2 approved: bob");
      await checkAccessible(page, "its own user");
      await checkAccessible(bob, "voted");
      await bob.getByRole("button", { name: "Reassign" }).click();
      await checkAccessible(bob, "handing over");
      await bob.getByLabel("Only this person").fill("carol");
      await bob.getByRole("button", { name: "Reassign" }).click();
      await expect(bob.locator(".people")).toContainText("Reassigned to carol");
      await bob.getByRole("button", { name: "Comment for the other people" }).click();
      await checkAccessible(bob, "handed over, commenting");
    });

    test("axe finds nothing where something is decided for later", async ({ page, serve }) => {
      const { url } = await serve({ turns: oneOrder });
      const card = await openCard(page, url);
      await card.getByRole("button", { name: "Make a rule…" }).click();
      await card.getByLabel("This tool, until a date").check();
      await card.getByLabel("Until the end of").fill("2020-01-31");
      await checkAccessible(page, "always");
      await card.getByLabel("This tool, with exactly these arguments").check();
      await card.getByLabel("Until the end of").fill("2099-01-31");
      await card.getByRole("button", { name: "Approve and make this rule" }).click();
      await expect(resolved(page)).toContainText("Approved");
      await page.getByRole("link", { name: "Standing rules" }).click();
      await expect(page.locator(".rule")).toBeVisible();
      await checkAccessible(page, "rules");
      await page.locator(".rule").getByRole("button", { name: "Revoke" }).click();
      await expect(page.getByText("There are no standing rules.")).toBeVisible();
      await checkAccessible(page, "no rules");
    });
  });
}

test.describe("phone", () => {
  test.use({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  test("nothing scrolls sideways where several people decide", async ({ page, serve }) => {
    const { url } = await serve({ turns: oneOrder, people, approval: busy });
    const session = await atSecondStep(page, url);
    await hasNoSidewaysScroll(page);
    // Bob can decide it.
    await page.evaluate(() => sessionStorage.setItem("countersign:token", "bob-token"));
    await page.goto(session);
    await page.reload();
    await page.getByRole("button", { name: "Reassign" }).tap();
    await hasNoSidewaysScroll(page);
    await page.getByRole("button", { name: "Back" }).tap();
    await page.getByRole("button", { name: "Make a rule…" }).tap();
    await hasNoSidewaysScroll(page);
    await page.getByRole("button", { name: "Back" }).tap();
    await page.getByRole("button", { name: "Open the session list" }).tap();
    await page.locator(".sidebar").getByRole("link", { name: "Standing rules" }).tap();
    await expect(page.getByText("There are no standing rules.")).toBeVisible();
    await hasNoSidewaysScroll(page);
  });
});
