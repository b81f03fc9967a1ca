import { call, expect, oneOrder, openCard, order, resolved, send, signIn, test } from "./support/console.js";

test("approve runs the call with exactly the arguments that were shown", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  const card = await openCard(page, url);
  await expect(card.locator(".shown-text")).toContainText('"order_ref": 9007199254740993,');
  await expect(card.locator(".shown-text")).toContainText('"price": 82000.10,');
  await expect(card.getByRole("timer")).toContainText("left");
  await expect(page.getByText("Decide on the request above to continue.")).toBeVisible();

  await card.getByRole("button", { name: "Approve" }).click();
  await expect(resolved(page)).toContainText("Approved");
  await expect(page.locator(".markdown").last()).toContainText('"order_ref":9007199254740993');
  await expect(page.locator(".markdown").last()).toContainText('"price":82000.10');
  await expect(page.locator(".tool-status")).toHaveText("done");
  await expect(page.locator(".card")).toHaveCount(0);
});

test("an edit runs instead, and shows what changed", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  const card = await openCard(page, url);
  await card.getByRole("button", { name: "Edit" }).click();
  await card.getByLabel("quantity").fill("50");
  await card.getByLabel("price").fill("81000.20");
  await expect(card.locator(".changes")).toContainText("100→50");
  await card.getByRole("button", { name: "Approve with changes" }).click();

  await expect(resolved(page)).toContainText("Approved with changes");
  await expect(resolved(page).locator(".changes")).toContainText("82000.10→81000.20");
  await expect(page.locator(".markdown").last()).toContainText('"quantity":50');
  await expect(page.locator(".markdown").last()).toContainText('"price":81000.20');

  // The call says what ran, and what the agent had proposed only as changed.
  await page.locator(".group-row").first().click();
  const tool = page.locator(".tool");
  await expect(tool.locator(".tool-row")).toContainText('"quantity":50');
  await expect(tool.locator(".tool-row")).not.toContainText('"quantity":100');
  await expect(tool.locator(".tool-row")).toContainText("changed by a reviewer");
  await tool.locator(".tool-row").click();
  await expect(tool.locator("pre").first()).toContainText('"quantity": 50');
  await expect(tool.locator(".changes")).toContainText("100→50");
});

test("what a call was to do is not said of an edited one", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder, says: "template", people: { alice: ["user"] } });
  await signIn(page, "alice");
  const card = await openCard(page, url);
  const row = page.locator(".tool-row");
  await expect(row).toContainText("Order VNM");
  await card.getByRole("button", { name: "Edit" }).click();
  await card.getByLabel("symbol").fill("FPT");
  await card.getByRole("button", { name: "Approve with changes" }).click();
  await expect(page.locator(".topbar")).toContainText("Finished");
  await expect(page.locator(".group-row").first()).toContainText("Approved with changes");
  await expect(page.locator(".group-row").first()).not.toContainText("Order VNM");
  await page.locator(".group-row").first().click();
  await expect(row).toContainText('"symbol":"FPT"');
  await expect(row).not.toContainText("Order VNM");
  await row.click();
  await expect(page.locator(".tool-body")).toContainText("Arguments, as alice changed them");
  await page.reload();
  await page.locator(".group-row").first().click();
  await expect(row).toContainText('"symbol":"FPT"');
});

test("of several actions the summary names the edit", async ({ page, serve }) => {
  const { url } = await serve({
    turns: [
      { calls: ["AAA", "BBB", "CCC"].map((s) => ({ name: "execute_trade", args: `{"symbol":"${s}","quantity":50}` })) },
      { text: "Done." },
    ],
  });
  const card = await openCard(page, url);
  const [first, second, third] = [0, 1, 2].map((i) => card.locator(".action").nth(i));
  await first!.getByRole("button", { name: "Approve", exact: true }).click();
  await second!.getByRole("button", { name: "Edit" }).click();
  await second!.getByLabel("quantity").fill("25");
  await third!.getByRole("button", { name: "Reject", exact: true }).click();
  await card.getByRole("button", { name: "Send decisions" }).click();
  await expect(resolved(page)).toContainText("1 approved, 1 approved with changes, 1 rejected");
  await expect(page.locator(".tool-row").nth(1)).toContainText('"quantity":25');
  await expect(page.locator(".tool-row").nth(1)).not.toContainText('"quantity":50');
  await expect(resolved(page).locator(".changes")).toContainText("50→25");
});

test("a refused edit says why, keeps what was typed, and can be corrected", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  const card = await openCard(page, url);
  await card.getByRole("button", { name: "Edit" }).click();
  // A simple rule of the schema is checked while the person types.
  await expect(card.getByText("At most 1000.")).toHaveClass("hint");
  await card.getByLabel("quantity").fill("5000");
  await expect(card.getByText("At most 1000.")).toHaveClass("field-error");
  await expect(card.getByLabel("quantity")).toHaveAttribute("aria-invalid", "true");
  await expect(card.getByRole("button", { name: "Approve with changes" })).toBeDisabled();
  await card.getByLabel("quantity").fill("50");
  await card.getByRole("button", { name: "JSON" }).click();
  const editor = card.getByLabel("Arguments as JSON");
  await editor.fill('{"symbol": 7, "quantity": 5000}');
  await card.getByRole("button", { name: "Approve with changes" }).click();
  await expect(card.getByRole("alert")).toContainText("do not fit the tool");
  await expect(card.getByRole("alert").getByRole("listitem")).toHaveText([/^quantity At most 1000\.$/, /^symbol The server says: .*string/]);
  await expect(editor).toHaveValue(/5000/);

  await editor.fill('{"symbol": "VNM", "quantity": 50}');
  await card.getByRole("button", { name: "Form" }).click();
  await card.getByLabel("quantity").fill("500");
  await expect(card.getByRole("alert")).toHaveCount(0);
  await card.getByRole("button", { name: "Approve with changes" }).click();
  await expect(page.locator(".markdown").last()).toContainText('"quantity":500');
});

test("the JSON editor says at once whether the text is JSON", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  const card = await openCard(page, url);
  await card.getByRole("button", { name: "Edit" }).click();
  await card.getByRole("button", { name: "JSON" }).click();
  const editor = card.getByLabel("Arguments as JSON");
  await expect(editor).toHaveValue(/"order_ref": 9007199254740993/);
  await editor.fill('{"symbol": "FPT", "quantity": ');
  await expect(card.getByText("Not valid JSON at line 1, column 31.")).toBeVisible();
  await expect(card.getByRole("button", { name: "Approve with changes" })).toBeDisabled();
  await editor.fill('{"symbol": "FPT", "quantity": 7}');
  await card.getByRole("button", { name: "Approve with changes" }).click();
  await expect(page.locator(".markdown").last()).toContainText('"symbol":"FPT"');
});

test("a rejection gives the agent the reason, and the call does not run", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  const card = await openCard(page, url);
  await card.getByRole("button", { name: "Reject" }).click();
  await expect(card.getByLabel("Reason")).toBeFocused();
  await card.getByLabel("Reason").fill("Too expensive today");
  await card.getByRole("button", { name: "Reject" }).click();
  await expect(resolved(page)).toContainText("Rejected: Too expensive today");
  await expect(page.locator(".markdown").last()).toContainText("Result: Too expensive today");
  await expect(page.locator(".tool-status")).toHaveText("rejected");
});

test("a comment goes along with the decision", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  const card = await openCard(page, url);
  await card.getByRole("button", { name: "Add a comment" }).click();
  await card.getByLabel("Comment for the agent").fill("Only this once");
  const frame = page.evaluate(
    () =>
      new Promise<string>((resolve) => {
        const before = WebSocket.prototype.send;
        WebSocket.prototype.send = function (data) {
          if (String(data).includes('"approval"')) resolve(String(data));
          return before.call(this, data);
        };
      }),
  );
  await card.getByRole("button", { name: "Approve" }).click();
  const sent = JSON.parse(await frame) as Record<string, unknown>;
  expect(sent).toMatchObject({
    user_edit_content: "Only this once",
    decisions: [{ type: "approve", args_digest: expect.stringMatching(/^[0-9a-f]{64}$/) }],
  });
  await expect(resolved(page)).toContainText("Approved");
  // Shown as the reviewer's words, above what the agent did with them.
  const comment = page.locator(".message.user", { hasText: "Only this once" });
  await expect(comment).toHaveCount(1);
  await expect(comment.locator("xpath=following-sibling::article")).toContainText("Result:");
});

test("nobody decides: the card says that time ran out", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder, timeout: 19 });
  const card = await openCard(page, url);
  await expect(card.getByRole("timer")).toContainText(/0:[01]\d/);
  await expect(resolved(page)).toContainText("Timed out");
  await expect(page.locator(".tool-status")).toHaveText("rejected");
});

test("several actions are decided one by one and sent together", async ({ page, serve }) => {
  const { url } = await serve({
    turns: [
      {
        text: "Two orders.",
        calls: [
          { name: "execute_trade", args: '{"symbol":"AAA","quantity":1}' },
          { name: "execute_trade", args: '{"symbol":"BBB","quantity":2}' },
        ],
      },
      { text: "Done." },
    ],
  });
  const card = await openCard(page, url);
  await expect(card.getByRole("heading", { level: 2 })).toHaveText("2 actions need approval");
  const sendButton = card.getByRole("button", { name: "Send decisions" });
  await expect(sendButton).toBeDisabled();
  await card.getByRole("button", { name: "Approve", exact: true }).first().click();
  await card.getByRole("button", { name: "Reject", exact: true }).last().click();
  await expect(card.getByText("2 of 2 decided")).toBeVisible();
  await sendButton.click();
  await expect(resolved(page)).toContainText("1 approved, 1 rejected");
  await expect(page.locator(".tool-status")).toHaveText(["done", "rejected"]);
});

test("approve all takes one press", async ({ page, serve }) => {
  const { url } = await serve({
    turns: [
      {
        calls: ["A", "B", "C"].map((s) => ({ name: "execute_trade", args: `{"symbol":"${s}","quantity":1}` })),
      },
      { text: "Done." },
    ],
  });
  const card = await openCard(page, url);
  await card.getByRole("button", { name: "Approve all" }).click();
  await expect(page.locator(".tool-status")).toHaveText(["done", "done", "done"]);
});

test("the keyboard is enough", async ({ page, serve }) => {
  const { url } = await serve({ turns: [call(order), call(order), { text: "Finished." }] });
  const card = await openCard(page, url);
  // Single letters do nothing while the focus is elsewhere, and are not named.
  await expect(card.locator(".keys")).toBeHidden();
  await page.getByLabel("Message to the agent").press("a");
  await expect(card).toBeVisible();
  await page.getByRole("button", { name: "Go to the request" }).press("Enter");
  await expect(card).toBeFocused();
  await expect(card.locator(".keys")).toHaveText("Shortcuts: A Approve, E Edit, R Reject");

  await page.keyboard.press("r");
  await expect(card.getByLabel("Reason")).toBeFocused();
  await page.keyboard.type("area");
  await page.keyboard.press("Escape");
  await expect(card.getByRole("button", { name: "Approve" })).toBeFocused();
  await page.keyboard.press("e");
  // The first field: arguments are in canonical order, as they are hashed and run.
  await expect(card.locator("input").first()).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(card.getByRole("button", { name: "Approve" })).toBeFocused();
  // A key that is still held down was pressed for something else.
  await card.dispatchEvent("keydown", { key: "r", repeat: true });
  await expect(card.getByLabel("Reason")).toHaveCount(0);
  await page.keyboard.press("a");
  await expect(resolved(page).first()).toContainText("Approved");
  // Its group has closed around it.
  await expect(page.locator(".group-row").first()).toBeFocused();
});

test("the keyboard is enough for several actions", async ({ page, serve }) => {
  const { url } = await serve({
    turns: [
      { calls: ["AAA", "BBB", "CCC"].map((s) => ({ name: "execute_trade", args: `{"symbol":"${s}","quantity":50}` })) },
      { text: "Done." },
    ],
  });
  const card = await openCard(page, url);
  const actions = card.locator(".action");
  await page.getByRole("button", { name: "Go to the request" }).press("Enter");
  await expect(card).toBeFocused();
  await page.keyboard.press("a");
  // On to the next one, which says its keys.
  await expect(actions.nth(1)).toBeFocused();
  await expect(actions.nth(1).locator(".keys")).toHaveText("Shortcuts: A Approve, E Edit, R Reject");
  await expect(actions.nth(0).locator(".keys")).toBeHidden();
  await page.keyboard.press("e");
  await expect(actions.nth(1).locator("input").first()).toBeFocused();
  await actions.nth(1).getByLabel("quantity").fill("25");
  await page.keyboard.press("Escape");
  await expect(actions.nth(1)).toBeFocused();
  await expect(card.getByText("1 of 3 decided")).toBeVisible();
  await page.keyboard.press("r");
  await expect(actions.nth(1).getByLabel("Reason")).toBeFocused();
  await page.keyboard.type("area");
  await actions.nth(2).getByRole("button", { name: "Edit" }).focus();
  await page.keyboard.press("a");
  await expect(card.getByRole("button", { name: "Send decisions" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(resolved(page)).toContainText("2 approved, 1 rejected");
});

test("stop cancels what waits", async ({ page, serve }) => {
  const { url } = await serve({ turns: oneOrder });
  await openCard(page, url);
  await page.getByRole("button", { name: "Stop" }).click();
  await expect(resolved(page)).toContainText("Cancelled");
  await expect(page.getByText("The turn was stopped.")).toBeVisible();
  await send(page, "Again");
  await expect(page.locator(".message.user")).toHaveCount(2);
});

test("letters that are drawn like others are marked in the form too", async ({ page, serve }) => {
  // The last letter of the name is Cyrillic, and the first one of the note is another encoding.
  const { url } = await serve({ turns: [call('{"symbol":"VN\u041c","quantity":1,"note":"\u{1d432}es"}'), { text: "Done." }] });
  const card = await openCard(page, url);
  await expect(card.locator(".shown-text")).toContainText("\\u{41C}");
  await card.getByRole("button", { name: "Edit" }).click();
  const note = (field: string) => card.locator(".field", { has: page.getByLabel(field) }).locator(".hint.warn");
  await expect(note("symbol")).toHaveText("Contains look-alike characters, shown as ⟨U+…⟩. VN⟨U+041C⟩");
  await expect(note("note")).toContainText("⟨U+1D432⟩es");
  await card.getByLabel("symbol").fill("VNM");
  await expect(note("symbol")).toHaveCount(0);
  await expect(card.locator(".changes")).toContainText("VN⟨U+041C⟩→VNM");
  await card.getByLabel("note").fill("p\u0430y");
  await expect(note("note")).toContainText("p⟨U+0430⟩y");
  await expect(card.locator(".changes")).toContainText("p⟨U+0430⟩y");
});
