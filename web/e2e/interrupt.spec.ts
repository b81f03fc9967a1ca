/** Questions of a graph's nodes, answered in the console of a program that serves its own graph. */
import type { Locator, Page } from "@playwright/test";
import { checkAccessible, expect, hasNoSidewaysScroll, resolved, signIn, test } from "./support/console.js";
import { startGraph, type GraphServer } from "./support/graph.js";
import { choose, press, withoutPointer, write } from "./support/keyboard.js";
import { EVERYWHERE, speak } from "./support/words.js";

const TOPICS = ["Green", "Black"];

const graphTest = test.extend<{ graph: (people?: string[]) => Promise<GraphServer> }>({
  graph: async ({ context }, use) => {
    const servers: GraphServer[] = [];
    await use(async (people = []) => {
      const server = await startGraph(people);
      servers.push(server);
      return server;
    });
    for (const page of context.pages()) await page.close();
    for (const server of servers) await server.stop();
  },
});

const session = (url: string) => `${url}/#/s/s1`;
const cards = (page: Page) => page.locator(".card[data-kind=interrupt]");
const cardOf = (page: Page, text: string): Locator => cards(page).filter({ hasText: text });

async function begin(server: GraphServer, page: Page, topics = TOPICS): Promise<void> {
  await server.begin("s1", { title: "Tea", topics });
  await page.goto(session(server.url));
  await expect(cards(page)).toHaveCount(1);
}

graphTest("g3: a run is answered from its first question to its last", async ({ page, graph }) => {
  const server = await graph(["alice"]);
  await signIn(page, "alice");
  await begin(server, page);
  const tone = cardOf(page, "tone");
  await expect(tone.getByRole("heading", { level: 2 })).toHaveText("“tone” needs your answer");
  await expect(tone.locator(".payload")).toContainText("Tea");
  await expect(tone).toContainText("outline");
  await expect(page.getByText("Answer the question above to continue.")).toBeVisible();
  await tone.getByLabel("Your answer", { exact: true }).fill("Short:");
  await tone.getByLabel("Your answer", { exact: true }).press("Enter");

  // The one that was asked last is answered first.
  await expect(cards(page)).toHaveCount(2);
  const black = cardOf(page, "Short: Black.");
  await black.getByLabel("accept").selectOption("false");
  await black.getByLabel("rating").fill("2");
  await black.getByRole("button", { name: "Send answer" }).click();
  await expect(cards(page)).toHaveCount(1);
  const green = cardOf(page, "Short: Green.");
  await green.getByLabel("accept").selectOption("true");
  await green.getByLabel("rating").fill("5");
  await green.getByLabel("text").fill("Green is best.");
  await green.getByRole("button", { name: "Send answer" }).click();

  const publish = cardOf(page, "publish");
  await expect(publish.locator(".payload")).toContainText("Green is best.");
  await publish.getByRole("button", { name: "Yes", exact: true }).click();
  const extras = cardOf(page, "extras");
  await extras.getByLabel("Your answer, as JSON").fill("{pages: 2}");
  await extras.getByRole("button", { name: "Send answer" }).click();
  await expect(extras.locator(".field-error")).toContainText("Not valid JSON");
  await expect(extras.getByLabel("Your answer, as JSON")).toBeFocused();
  await extras.getByLabel("Your answer, as JSON").fill('{"pages": 2, "price": 1.10}');
  await extras.getByRole("button", { name: "Send answer" }).click();

  await expect(resolved(page)).toHaveCount(5);
  await expect(resolved(page).filter({ hasText: "publish" })).toContainText("Answered: Yes");
  await expect(resolved(page).filter({ hasText: "publish" })).toContainText("by alice");
  await expect(resolved(page).filter({ hasText: "extras" })).toContainText("1.10");
  await expect(page.getByText("Finished").first()).toBeVisible();
  await checkAccessible(page, "a run that is over");
});

graphTest("g3 w9: where a graph runs, no message is offered, neither now nor at an earlier point", async ({ page, graph }) => {
  const server = await graph(["alice"]);
  await signIn(page, "alice");
  await begin(server, page);
  const field = page.getByLabel("Message to the agent");
  await expect(page.getByText("Answer the question above to continue.")).toBeVisible();
  await expect(field).toHaveCount(0);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await expect(page.locator(".topbar")).toContainText("Stopped");
  await expect(page.locator(".composer-hint")).toHaveText("No agent of this server reads messages here.");
  await expect(field).toHaveCount(0);
  await page.getByRole("button", { name: "Earlier points" }).click();
  const points = page.getByRole("dialog").locator(".past-point");
  await expect(points.filter({ hasText: "The turn ended" })).toHaveCount(1);
  for (const toggle of await points.locator(".past-toggle").all()) await toggle.click();
  await expect(points.first().getByRole("button", { name: /^Continue from here/ })).toBeEnabled();
  await expect(points.getByLabel("The next message")).toHaveCount(0);
  await checkAccessible(page, "the earlier points of a run");
});

graphTest("g3: what the server refuses stands at its field, and what was typed stays", async ({ page, graph, tolerate }) => {
  tolerate.push(/net::ERR_|WebSocket connection to/);
  const server = await graph();
  await begin(server, page);
  await cardOf(page, "tone").getByLabel("Your answer", { exact: true }).fill("Short:");
  await cardOf(page, "tone").getByRole("button", { name: "Send answer" }).click();
  const black = cardOf(page, "Short: Black.");
  await black.getByRole("button", { name: "Send answer" }).click();
  await expect(black.locator(".field-error")).toHaveCount(2);
  await expect(black.getByLabel("accept")).toBeFocused();
  await black.getByLabel("accept").selectOption("true");
  await black.getByLabel("rating").fill("9");
  await black.getByLabel("text").fill("Black it is");
  await black.getByRole("button", { name: "Send answer" }).click();
  await expect(black.getByRole("alert")).toContainText("The answer does not fit what is asked.");
  await expect(black.locator(".field", { hasText: "rating" }).locator(".field-error")).toContainText("maximum of 5");
  await page.reload();
  await expect(cardOf(page, "Short: Black.").getByLabel("rating")).toHaveValue("9");
  await expect(cardOf(page, "Short: Black.").getByLabel("text")).toHaveValue("Black it is");
  await server.restart();
  await cardOf(page, "Short: Black.").getByLabel("rating").fill("4");
  await cardOf(page, "Short: Black.").getByRole("button", { name: "Send answer" }).click();
  await expect(cards(page)).toHaveCount(1);
});

graphTest("g3: hidden characters of what is shown are marked", async ({ page, graph }) => {
  const server = await graph();
  await begin(server, page, ["Gr\u202eeen"]);
  await expect(cards(page).locator(".shown-warning")).toContainText("changing the direction of the text: 1");
  await expect(cards(page).locator(".hidden-char")).toHaveText("\\u{202E}");
});

graphTest("g3: the inbox lists what a graph asks, and the picture shows where it stands", async ({ page, graph }) => {
  const server = await graph();
  await server.begin("s1", { title: "Tea", topics: TOPICS });
  await page.goto(server.url);
  await page.getByRole("link", { name: "Inbox" }).click();
  const row = page.locator(".inbox-row");
  await expect(row).toContainText("“tone” needs your answer");
  await row.getByRole("link").click();
  await expect(cards(page)).toBeFocused();
  await page.locator(".inbox-asked").getByRole("link").click();
  await page.getByRole("button", { name: "Graph", exact: true }).click();
  await expect(page.getByRole("img", { name: /outline/ })).toBeVisible();
});

for (const [language, width, colorScheme] of EVERYWHERE) {
  graphTest(`g3 u1: the questions of a graph are accessible and take no pointer, ${language}, ${width}, ${colorScheme}`, async ({ page, graph }) => {
    await page.setViewportSize({ width, height: width < 800 ? 844 : 900 });
    await page.emulateMedia({ colorScheme });
    const t = await speak(page, language);
    await withoutPointer(page);
    const server = await graph();
    await begin(server, page);
    const movedOn = { movedOn: true };
    const sending = (card: Locator) => card.getByRole("button", { name: t("interrupt.send") });
    const shot = async (name: string) => {
      await hasNoSidewaysScroll(page);
      await checkAccessible(page, name);
      const folder = process.env.LOOK;
      if (folder) await page.screenshot({ path: `${folder}/interrupt-${name}-${language}-${width}.png` });
    };
    await shot("tone");
    await write(page, cardOf(page, "tone").getByLabel(t("interrupt.answer"), { exact: true }), "Short:");
    await press(page, sending(cardOf(page, "tone")), "Enter", movedOn);
    await expect(cards(page)).toHaveCount(2);
    await press(page, sending(cardOf(page, "Short: Black.")));
    await shot("reviews");
    for (const topic of TOPICS) {
      // The next card shows the articles too.
      const card = cardOf(page, `Short: ${topic}.`).filter({ hasText: "review" });
      await choose(page, card.getByLabel("accept"), t("interrupt.yes"));
      await write(page, card.getByLabel("rating"), "5");
      await press(page, sending(card), "Enter", movedOn);
      await expect(card).toHaveCount(0);
    }
    await expect(cardOf(page, "publish")).toBeVisible();
    await shot("publish");
    await press(page, cardOf(page, "publish").getByRole("button", { name: t("interrupt.yes"), exact: true }), "Enter", movedOn);
    const extras = cardOf(page, "extras");
    await expect(extras).toBeVisible();
    await shot("extras");
    await write(page, extras.getByLabel(t("interrupt.json")), '{"pages": 2}');
    await press(page, sending(extras), "Enter", movedOn);
    await expect(page.locator(".topbar")).toContainText(t("status.completed"));
  });
}
