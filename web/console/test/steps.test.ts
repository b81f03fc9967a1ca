// @vitest-environment jsdom
import { createElement as h } from "react";
import { expect, test } from "vitest";
import type { ApprovalView } from "@countersign/client";
import { People } from "../src/components/approval/People.js";
import { show } from "./page.js";

/** The states of the steps, in their order. */
async function steps(kind: ApprovalView["kind"], level: number) {
  const approval: ApprovalView = {
    approvalKey: "s_1",
    sessionId: "s",
    kind,
    actions: [{ name: "pay", args: {}, id: "c1" }],
    reviewConfigs: [{ role: "legal", level, levels: ["user", "legal", "admin"] }],
    complete: true,
    updates: [],
  };
  const { page } = await show(h(People, { approval, bar: undefined }));
  return [...page.querySelectorAll(".people-steps li")].map((step) => step.getAttribute("data-state"));
}

test("p4: who is asked whether a call runs again sees that the levels are asked from the last one on", async () => {
  expect(await steps("approval", 2)).toEqual(["done", "now", "next"]);
  expect(await steps("in_doubt", 2)).toEqual(["next", "now", "done"]);
  expect(await steps("in_doubt", 3)).toEqual(["next", "next", "now"]);
});
