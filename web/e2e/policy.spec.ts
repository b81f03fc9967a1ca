/** The operator's policy in the console: which calls need whom. */
import { checkAccessible, expect, hasNoSidewaysScroll, signIn, tabOf, test } from "./support/console.js";
import type { ServerOptions } from "./support/server.js";
import { APPEARANCES } from "./support/words.js";

const RULES = `
[[policy.rules]]
name = "Large orders"
tool = ["execute_trade", "transfer_*"]
role = ["trading"]
when = "args.quantity * args.price >= 1000000000"
require = "args.side == 'buy'"
levels = ["finance", "admin"]
quorum = 2
not_self = true
timeout = 86400
on_timeout = { escalate = "admin" }
reassign = ["admin"]
reminders = [3600, 7200]
allowed_decisions = ["approve", "reject"]
risk = "high"

[[policy.rules]]
tool = "delete_*"
deny = "mark it as void"

[[policy.rules]]
hints = { read_only = true }
require = false
`;
const people = { alice: ["trading"], olga: ["auditor"], f1: ["finance"], f2: ["finance"], a1: ["admin"], a2: ["admin"] };
const options: ServerOptions = { turns: [], people, approval: 'levels = ["admin"]', timeout: 90, more: RULES };

test("u1 p1: an auditor sees the rules in their order, with conditions, levels and deadlines, and what each tool asks by itself", async ({ page, context, serve, tolerate }) => {
  tolerate.push(/Failed to load resource.*403/);
  const { url } = await serve(options);
  await signIn(page, "olga");
  await page.goto(url);
  await page.getByRole("link", { name: "Policy", exact: true }).click();
  await expect(page).toHaveURL(/#\/policy$/);
  const rule = page.locator(".policy-list > li");
  await expect(rule).toHaveCount(3);
  await expect(rule.getByRole("heading")).toHaveText(["1. Requires approval Large orders", "2. Not allowed", "3. Requires no approval"]);
  const facts = (n: number) =>
    rule.nth(n).locator("dl > div").evaluateAll((all) => all.map((one) => [...one.children].map((part) => part.textContent).join(": ")));
  expect(await facts(0)).toEqual([
    "Calls of: execute_trade, transfer_*",
    "Requested by: trading",
    "When: args.quantity * args.price >= 1000000000",
    "Asked only if: args.side == 'buy'",
    "Who decides: finance then admin",
    "At each level: 2 different people",
    "May not approve: the person who asked for it",
    "Time to decide: 1 day",
    "Reminded after: 1 hour, 2 hours",
    "Asked if nobody decides in time: admin",
    "May be reassigned to: admin",
    "Allowed decisions: Approve, Reject",
    "Risk: high",
  ]);
  expect(await facts(1)).toEqual(["Calls of: delete_*", "The agent is told: mark it as void"]);
  expect(await facts(2)).toEqual(["Calls of: every tool", "Declared by the tool: read_only = true"]);
  const trade = page.locator(".policy-tools > li").filter({ hasText: "execute_trade" });
  await expect(trade).toContainText("Requires approval");
  await expect(trade).toContainText("Who decidesadmin");
  await expect(trade).toContainText("90 seconds");
  await expect(trade).toContainText("Allowed decisionsApprove, Edit, Reject");
  // What neither says is in a place of its own.
  const defaults = page.getByRole("region", { name: "Where neither says otherwise" });
  await expect(defaults).toContainText("Time to decide5 minutes");
  await expect(defaults).toContainText("Allowed decisionsApprove, Edit, Reject, Decide later");
  // The version is that which requests and the audit log name.
  const authorization = "Bearer olga-token";
  const { version } = (await (await fetch(`${url}/v1/policy`, { headers: { authorization } })).json()) as { version: string };
  await expect(page.locator(".rules .hint code")).toHaveText(version);
  await page.reload();
  await expect(rule).toHaveCount(3);

  // It shows which calls run without approval, so it is not for everybody.
  const alice = await tabOf(context, "alice", `${url}/#/policy`);
  await expect(alice.getByRole("alert")).toContainText("You may not do this.");
  await expect(alice.getByRole("link", { name: "Policy", exact: true })).toHaveCount(0);
  await expect(alice.getByRole("link", { name: "Standing rules" }).first()).toBeVisible();
});

test("u1: a policy without rules says so", async ({ page, serve }) => {
  const { url } = await serve({ turns: [] });
  await page.goto(`${url}/#/policy`);
  await expect(page.getByText("No rules: each tool’s own setting applies.")).toBeVisible();
  await expect(page.locator(".policy-tools > li").first()).toBeVisible();
});

for (const [language, colorScheme] of APPEARANCES) {
  test.describe(`${language}, ${colorScheme}`, () => {
    test.use({ colorScheme });
    test("u1: the policy is readable at two widths", async ({ page, serve }) => {
      const { url } = await serve(options);
      await signIn(page, "olga");
      await page.addInitScript((l) => localStorage.setItem("countersign:language", l), language);
      for (const width of [1280, 390]) {
        await page.setViewportSize({ width, height: 900 });
        await page.goto(`${url}/#/policy`);
        await expect(page.locator(".policy-list > li")).toHaveCount(3);
        await checkAccessible(page, `policy, ${language}, ${width}`);
        await hasNoSidewaysScroll(page);
        if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/policy-${language}-${colorScheme}-${width}.png` });
      }
    });
  });
}
