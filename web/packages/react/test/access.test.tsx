// @vitest-environment jsdom
/** What assistive technology reads of cards without styles, beyond native elements. */
import { expect, it } from "vitest";
import { ApprovalCard } from "../src/index.js";
import { click, labelled, request, show } from "./page.js";

it("u2: a group of fields is named by its heading, and a text that scrolls has a role that may have a name", async () => {
  const [action] = request().actions;
  const preview = { kind: "text" as const, text: "It pays.", left_out: 0 };
  const schema = { type: "object", properties: { n: { type: "integer" }, to: { type: "array", items: { type: "string" } } } };
  const reviewConfigs = [{ allowed_decisions: ["approve" as const, "edit" as const], args_schema: schema }];
  const { page } = await show(<ApprovalCard approval={request({ actions: [{ ...action!, preview }], reviewConfigs })} />);
  const texts = [...page.querySelectorAll("pre")].map((one) => [one.getAttribute("role"), one.ariaLabel ?? one.getAttribute("aria-label")]);
  expect(texts).toEqual([["group", "Arguments, exactly as they will run"], ["group", "What it would do"]]);
  await click(labelled(page, "Edit"));
  const name = (group: Element) => group.querySelector(":scope > legend")?.textContent ?? document.getElementById(group.getAttribute("aria-labelledby") ?? "")?.textContent;
  expect([...page.querySelectorAll("fieldset fieldset")].map(name)).toEqual(["pay", "Edit the arguments", "to"]);
});
