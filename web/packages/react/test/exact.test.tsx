// @vitest-environment jsdom
import { expect, it } from "vitest";
import { parseJson, type JsonObject } from "@countersign/client";
import { ApprovalCard } from "../src/index.js";
import { click, labelled, request, show, write } from "./page.js";

it("s12 shows a value that is none of the choices, and never another one in its place", async () => {
  const schema = `{"type": "object", "required": ["legs"], "properties": {"legs": {"type": "array", "items": {
    "type": "object", "required": ["side", "dry_run"], "properties": {
      "side": {"anyOf": [{"enum": ["buy", "sell"]}, {"type": "null"}]}, "dry_run": {"type": ["boolean", "null"]}
  }}}}}`;
  const [action] = request().actions;
  const approval = request({
    actions: [{ ...action!, args: parseJson('{"legs": [{"side": null, "dry_run": null}, {"side": "sell", "dry_run": true}]}') as JsonObject }],
    reviewConfigs: [{ allowed_decisions: ["approve", "edit", "reject"], args_schema: parseJson(schema) as JsonObject }],
  });
  const { page } = await show(<ApprovalCard approval={approval} />);
  await click(labelled(page, "Edit"));
  expect([...page.querySelectorAll("select")].map((one) => one.selectedOptions[0]?.text)).toEqual(["null", "null", "sell", "true"]);
});

it("s12 shows a moment that does not exist, and never an empty field in its place", async () => {
  const args = { a: "2026-02-30T10:00", b: "2026-01-01T24:00", c: "2026-01-31T10:00", d: "2026-01-31T10:00:00Z" };
  const properties = Object.fromEntries(Object.keys(args).map((name) => [name, { type: "string", format: "date-time" }]));
  const [action] = request().actions;
  const approval = request({
    actions: [{ ...action!, args }],
    reviewConfigs: [{ allowed_decisions: ["approve", "edit", "reject"], args_schema: { type: "object", properties } }],
  });
  const { page } = await show(<ApprovalCard approval={approval} />);
  await click(labelled(page, "Edit"));
  const fields = [...page.querySelectorAll<HTMLInputElement>('[data-part="editor"] input')];
  expect(fields.map(({ value }) => value)).toEqual(Object.values(args));
  expect(fields.map(({ type }) => type)).toEqual(["text", "text", "datetime-local", "text"]);
});

it("u1 tells screen readers what is wrong with an argument whose name has a space", async () => {
  const [action] = request().actions;
  const properties = { "unit price": { type: "number", description: "In dong." }, "unit%price": { type: "number", description: "In percent." }, "to-full name": { type: "string", description: "To all." }, to: { type: "object", properties: { "full name": { type: "string", description: "As in the passport." } } } };
  const approval = request({
    actions: [{ ...action!, args: { "unit price": 1, "unit%price": 2, "to-full name": "B", to: { "full name": "A" } } }],
    reviewConfigs: [{ allowed_decisions: ["approve", "edit", "reject"], args_schema: { type: "object", properties } }],
  });
  const { page } = await show(<ApprovalCard approval={approval} />);
  await click(labelled(page, "Edit"));
  const [price, share, all, name] = [...page.querySelectorAll<HTMLInputElement>('[data-part="editor"] input')];
  await write(price!, "x");
  const described = (field: Element) => (field.getAttribute("aria-describedby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent);
  expect(described(price!)).toEqual([expect.stringMatching(/^In dong\..*number/)]);
  expect([share, all, name].map((one) => described(one!))).toEqual([["In percent."], ["To all."], ["As in the passport."]]);
});
