// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { ApprovalView } from "@countersign/client";
import { putOffRequest, usePutOff } from "../src/state/later.js";

/** The server's clock minus ours. */
let offset = 0;
vi.mock("../src/state/connection.js", () => ({ client: { on: () => {} }, laterKey: () => "later", serverNow: () => Date.now() + offset }));

beforeEach(() => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  localStorage.clear();
});

test("what is put off comes back also if the clock was corrected meanwhile", async () => {
  const PutOff = () => h("p", null, [...usePutOff().keys()].join(" "));
  const box = document.createElement("div");
  const root = createRoot(box);
  await act(async () => root.render(h(PutOff)));
  const approval: ApprovalView = { approvalKey: "s_1", sessionId: "s", kind: "approval", actions: [], reviewConfigs: [], complete: true, updates: [] };
  await act(async () => void putOffRequest(approval));
  expect(box.textContent).toBe("s_1");
  offset = -400;
  await act(() => vi.advanceTimersByTimeAsync(3_600_100));
  expect(box.textContent).toBe("s_1");
  await act(() => vi.advanceTimersByTimeAsync(400));
  expect(box.textContent).toBe("");
  await act(async () => root.unmount());
});
