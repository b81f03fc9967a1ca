// @vitest-environment jsdom
import { expect, it } from "vitest";
import { parseJson, type JsonObject } from "@countersign/client";
import { ApprovalCard } from "../src/index.js";
import { click, labelled, request, show } from "./page.js";

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
