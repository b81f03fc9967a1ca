// @vitest-environment jsdom
/** A server, or a package, that is newer than the page: unknown content is shown as well as possible. */
import { expect, it, vi } from "vitest";
import type { ApprovalView, CountersignHttp } from "@countersign/client";
import { ApprovalCard, BareProvider, english, type Labels, type PartialLabels, type TextKey } from "../src/index.js";
import { vietnamese } from "../src/vi.js";
import { chinese } from "../src/zh.js";
import { alert, button, click, connected, labelled, request, show } from "./page.js";

const asked = (more: object) => request(more as Partial<ApprovalView>);

it("u2: a request of a kind that is not known is shown whole, and there is no way to reply to it", async () => {
  const { page, draw } = await show(<ApprovalCard approval={asked({ kind: "handover\u202e" })} />);
  expect(page.textContent).toContain("does not know this kind of request, “handover⟨U+202E⟩”");
  expect(page.querySelector('[data-part="arguments"]')?.textContent).toContain('{"n": 1}');
  expect([page.querySelector("form"), page.querySelectorAll("button[type=submit], input").length]).toEqual([null, 0]);
  await draw(<ApprovalCard approval={asked({ kind: "handover", resolution: "decided", by: "ann" })} />);
  expect(page.querySelector("[data-countersign=resolved] p")?.textContent).toBe("Decided by ann");
});

it("u2: a decision that is not known is not offered, and is named where somebody has made it", async () => {
  const reviewConfigs = [{ allowed_decisions: ["escalate", "reject"] }];
  const { page, draw } = await show(<ApprovalCard approval={asked({ reviewConfigs })} />);
  expect([...page.querySelectorAll("input[type=radio]")].map((one) => one.closest("label")?.textContent)).toEqual(["Reject"]);
  const two = [...request().actions, { name: "pay", args: {}, id: "c2" }];
  await draw(<ApprovalCard approval={asked({ actions: two, resolution: "decided", decisions: [{ type: "escalate" }, { type: "approve" }] })} />);
  expect(page.querySelector("p")?.textContent).toBe("escalate, Approved");
  expect([...page.querySelectorAll("figcaption")].map((one) => one.textContent)).toEqual(["pay: escalate", "pay: Approve"]);
});

it("u2: nobody is said to have decided what ended in a way that is not known", () => {
  const ended = asked({ resolution: "superseded" });
  expect([english, vietnamese, chinese].map(({ resolved }) => resolved(ended))).toEqual(["Ended (superseded)", "Đã kết thúc (superseded)", "已结束（superseded）"]);
});

it("u2: what the labels of a page leave out is English, each word of it", async () => {
  const labels: PartialLabels = {
    choices: { approve: "Ja" },
    texts: { "args.exact": "Genau", "args.region": undefined },
    questions: { skip: "Weiter" },
    choose: undefined as never,
  };
  const { page, draw } = await show(<ApprovalCard approval={request()} />, { labels });
  expect(["Ja", "Reject"].map((words) => labelled(page, words) !== null)).toEqual([true, true]);
  expect([button(page, "Genau") !== undefined, page.querySelector('[data-part="args"]')?.getAttribute("aria-label")]).toEqual([true, "Arguments as a table"]);
  await click(button(page, "Send"));
  expect(alert(page)).toBe(english.choose);
  const questions = [{ question: "Which?", multiSelect: false, options: [{ label: "A" }] }];
  await draw(<ApprovalCard approval={asked({ kind: "question", actions: [{ name: "ask", args: { questions } }] })} />);
  expect(["Weiter", "Send answer"].map((words) => button(page, words) !== undefined)).toEqual([true, true]);
});

it("u2: a page with all words itself, which was made before there was another, shows its name and goes on", async () => {
  const { "args.exact": _, ...texts } = english.texts;
  const labels: Labels = { ...english, texts: texts as Record<TextKey, string> };
  const { page } = await show(
    <BareProvider client={connected()} http={vi.fn() as unknown as CountersignHttp} labels={labels}>
      <ApprovalCard approval={request()} />
    </BareProvider>,
  );
  expect(button(page, "args.exact")).toBeDefined();
});
