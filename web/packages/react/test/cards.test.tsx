// @vitest-environment jsdom
import { act } from "react";
import { describe, expect, it, vi } from "vitest";
import { CountersignError, LosslessNumber, NO_PREFERENCE, stringifyJson, type ApprovalView, type HistoryStep, type JsonValue } from "@countersign/client";
import { ApprovalCard, english, ResolvedQuestionBlock, type CardReply } from "../src/index.js";
import { alert, button, click, labelled, request, show, Socket, write } from "./page.js";

const replies = () => {
  const sent: CardReply[] = [];
  return { sent, onReply: vi.fn(async (_: unknown, reply: CardReply) => void sent.push(reply)) };
};

describe("ApprovalCard", () => {
  it("says what would run, who decides and until when, and chooses nothing by itself", async () => {
    const { sent, onReply } = replies();
    const expiresAt = "2027-01-01T00:00:00Z";
    const { page } = await show(<ApprovalCard approval={request({ expiresAt })} onReply={onReply} />);
    expect(page.querySelector("legend")?.textContent).toBe("pay");
    expect(page.querySelector('[data-part="shown"]')?.textContent).toBe('{"n": 1}');
    expect(page.querySelector('[data-part="who"]')?.textContent).toContain("Waiting for admin");
    expect(page.querySelector("time")?.dateTime).toBe(expiresAt);
    expect(page.querySelectorAll("input:checked").length).toBe(0);
    await click(button(page, "Send"));
    expect(alert(page)).toBe("Choose for every call.");
    expect(sent).toEqual([]);
  });

  it("sends each choice with the digests of what was shown", async () => {
    const digests = { digest: "d1", args_digest: "a1" };
    for (const [choice, field, text, decision] of [
      ["Approve", undefined, "", { type: "approve" }],
      ["Reject", "Reason for the agent", " too dear ", { type: "reject", message: "too dear" }],
      ["Give the result", "Result of the call", "paid by hand", { type: "respond", output: "paid by hand" }],
    ] as const) {
      const { sent, onReply } = replies();
      const { page } = await show(<ApprovalCard approval={request()} onReply={onReply} />);
      await click(labelled(page, choice));
      if (field) await write(labelled(page, field), text);
      await write(labelled(page, "Message to the agent"), "Be quick");
      await click(button(page, "Send"));
      expect(sent).toEqual([{ decisions: [{ ...decision, ...digests }], user_edit_content: "Be quick" }]);
      expect(page.querySelector('[role="status"]')?.textContent).toBe("Sent.");
      expect(page.querySelector("fieldset")?.disabled).toBe(true);
    }
  });

  it("keeps every digit of an edit, and says what is wrong with one that is no object", async () => {
    const { sent, onReply } = replies();
    const args = { n: new LosslessNumber("9007199254740993") };
    const [action] = request().actions;
    const { page } = await show(<ApprovalCard approval={request({ actions: [{ ...action!, args }] })} onReply={onReply} />);
    await click(labelled(page, "Edit"));
    const field = labelled(page, "Arguments as JSON") as HTMLTextAreaElement;
    expect(field.value).toBe('{\n  "n": 9007199254740993\n}');
    for (const [text, wrong] of [["{", "Not valid JSON at line 1, column 2."], ["[1]", "The arguments must be a JSON object."]] as const) {
      await write(field, text);
      await click(button(page, "Send"));
      expect([alert(page), page.querySelector('[data-part="problem"]')?.textContent]).toEqual(["Fix the marked fields first.", wrong]);
    }
    await write(field, '{"n": 9007199254740993, "price": 1.10}');
    await click(button(page, "Send"));
    expect(stringifyJson(sent[0])).toContain('"args":{"n":9007199254740993,"price":1.10}');
  });

  it("keeps what was entered when the server refuses it, and sends it again", async () => {
    const onReply = vi.fn().mockRejectedValueOnce(new CountersignError("invalid_edit", "n: 1 is less than 5")).mockResolvedValue(undefined);
    const { page } = await show(<ApprovalCard approval={request()} onReply={onReply} />);
    await click(labelled(page, "Reject"));
    await write(labelled(page, "Reason for the agent"), "No");
    await click(button(page, "Send"));
    expect(alert(page)).toBe("n: 1 is less than 5");
    expect((labelled(page, "Reason for the agent") as HTMLTextAreaElement).value).toBe("No");
    await click(button(page, "Send"));
    expect([onReply.mock.calls.length, alert(page)]).toEqual([2, ""]);
  });

  it("decides several calls one by one, and sends them together", async () => {
    const { sent, onReply } = replies();
    const [action] = request().actions;
    const actions = [action!, { ...action!, name: "mail", id: "c2", digest: "d2" }];
    const reviewConfigs = [{ allowed_decisions: ["approve" as const] }, { allowed_decisions: ["reject" as const] }];
    const { page } = await show(<ApprovalCard approval={request({ actions, reviewConfigs })} onReply={onReply} />);
    await click(labelled(page, "Approve"));
    await click(button(page, "Send"));
    expect([alert(page), sent.length]).toEqual(["Choose for every call.", 0]);
    await click(labelled(page, "Reject"));
    await click(button(page, "Send"));
    expect(sent).toMatchObject([{ decisions: [{ type: "approve", digest: "d1" }, { type: "reject", digest: "d2" }] }]);
  });

  it("replies by the connection, and once however often it is pressed", async () => {
    const { page } = await show(<ApprovalCard approval={request()} />);
    await click(labelled(page, "Approve"));
    await click(button(page, "Send"));
    await click(button(page, "Send"));
    expect(Socket.last.sent).toMatchObject([{ type: "approval", approval_key: "s_1", digest: "d1", decisions: [{ type: "approve" }] }]);
    expect(page.querySelector('[role="status"]')?.textContent).toBe("Sending…");
  });

  it("knows after it was away that its reply is on its way, and what came of it", async () => {
    const { page, draw } = await show(<ApprovalCard approval={request()} />);
    const status = () => page.querySelector('[role="status"]')?.textContent;
    const answer = (frame: object) => act(async () => Socket.last.receive({ ...frame, request_id: Socket.last.sent.at(-1)?.request_id, session_id: "s" }));
    const away = async () => {
      await draw(<p />);
      await draw(<ApprovalCard approval={request()} />);
    };
    await click(labelled(page, "Approve"));
    await click(button(page, "Send"));
    await away();
    expect([status(), page.querySelector("fieldset")?.disabled]).toEqual(["Sending…", true]);
    await answer({ type: "error", code: "store_unavailable", message: "away" });
    expect([alert(page), page.querySelector("fieldset")?.disabled]).toEqual(["away", false]);
    await click(button(page, "Send"));
    await away();
    await answer({ type: "ack" });
    expect(status()).toBe("Sent.");
  });

  it("goes on after one approval of several", async () => {
    const { onReply } = replies();
    const reviewConfigs = [{ allowed_decisions: ["approve" as const, "reject" as const], quorum: 2 }];
    const { page } = await show(<ApprovalCard approval={request({ reviewConfigs })} onReply={onReply} />);
    await click(labelled(page, "Approve"));
    await click(button(page, "Send"));
    expect(page.querySelector('[role="status"]')?.textContent).toBe("You have approved.");
    expect([page.querySelectorAll("input:checked").length, page.querySelector("fieldset")?.disabled]).toEqual([0, false]);
  });

  it("takes an edit that changes nothing for the approval that it is", async () => {
    const { sent, onReply } = replies();
    const { page } = await show(<ApprovalCard approval={request()} onReply={onReply} />);
    await click(labelled(page, "Edit"));
    await click(button(page, "Send"));
    expect(sent).toMatchObject([{ decisions: [{ type: "approve", digest: "d1" }] }]);
  });

  it("begins anew with another request", async () => {
    const { page, draw } = await show(<ApprovalCard approval={request()} />);
    await click(labelled(page, "Approve"));
    await draw(<ApprovalCard approval={request({ approvalKey: "s_2" })} />);
    expect(page.querySelectorAll("input:checked").length).toBe(0);
  });

  it("shows afterwards what ran, by whom, and not what was proposed", async () => {
    const edited = { type: "edit" as const, edited_action: { name: "pay", args: { n: 25 } } };
    const { page, draw } = await show(<ApprovalCard approval={request({ resolution: "decided", by: "bob", decisions: [edited] })} />);
    expect(page.querySelector("section p")?.textContent).toBe("Approved with other arguments by bob");
    expect(page.querySelector("pre")?.textContent).toBe('{\n  "n": 25\n}');
    expect(page.querySelector("form")).toBeNull();
    await draw(<ApprovalCard approval={request({ resolution: "timeout" })} />);
    expect(page.querySelector("section p")?.textContent).toBe("Nobody decided in time");
  });

  it("answers what a node of a graph asks with any value", async () => {
    const { sent, onReply } = replies();
    const interrupt = { node: "article", name: "review", payload: "Green?" };
    const { page } = await show(<ApprovalCard approval={request({ kind: "interrupt", interrupt })} onReply={onReply} />);
    await write(labelled(page, "Your answer, as JSON"), "yes");
    await click(button(page, "Send"));
    expect([alert(page), page.querySelector('[data-part="problem"]')?.textContent]).toEqual(["Fix the marked fields first.", "Not valid JSON at line 1, column 1."]);
    await write(labelled(page, "Your answer, as JSON"), "null");
    await click(button(page, "Send"));
    expect(sent).toEqual([{ resume: null }]);
  });

  it("writes out what a screen would hide in the words of a model", async () => {
    const [action] = request().actions;
    const { page } = await show(<ApprovalCard approval={request({ actions: [{ ...action!, name: "pay\u202E", description: "a\u200Bb\nc" }] })} />);
    expect(page.querySelector("legend")?.textContent).toBe("pay⟨U+202E⟩");
    expect(page.querySelector('[data-part="description"]')?.textContent).toBe("a⟨U+200B⟩b\nc");
  });
});

const questions: JsonValue = [
  { question: "Which?", header: "Goal", multiSelect: false, options: [{ label: "A", description: "first" }, { label: "Other", input: true }] },
  { question: "When?", multiSelect: true, options: [{ label: "Now" }, { label: "Later" }] },
];
const asked = (more = {}) =>
  request({ kind: "question", actions: [{ name: "ask_user_question", args: { questions } }], reviewConfigs: [], ...more });

describe("QuestionCard", () => {
  it("asks one after another, and sends what a person chose and wrote once they have looked it over", async () => {
    const { sent, onReply } = replies();
    const { page } = await show(<ApprovalCard approval={asked()} onReply={onReply} />);
    const legend = () => page.querySelector("legend")?.textContent;
    expect(legend()).toBe("1 / 2Question 1 of 2Goal Which?");
    await click(button(page, "Next"));
    expect(alert(page)).toBe("Choose an answer, or skip this question.");
    await click(labelled(page, "Other"));
    await click(button(page, "Next"));
    expect(alert(page)).toBe("Write your answer, or choose another option.");
    await write(labelled(page, "Your answer for “Other”"), " Mine ");
    await click(button(page, "Next"));
    expect(legend()).toContain("When?");
    await click(labelled(page, "Later"));
    await click(labelled(page, "Now"));
    await click(button(page, "Review answers"));
    expect([...page.querySelectorAll("dd:not([data-part])")].map((one) => one.textContent)).toEqual(["Mine", "Now, Later"]);
    expect(sent).toEqual([]);
    await click(button(page, "Send answers"));
    expect(sent).toEqual([{ answers: { "Which?": "Mine", "When?": "Now, Later" } }]);
  });

  it("sends that there is no preference, and that they are not answered", async () => {
    const { sent, onReply } = replies();
    const { page } = await show(<ApprovalCard approval={asked()} onReply={onReply} />);
    await click(labelled(page, "A"));
    await click(button(page, "Next"));
    await click(button(page, "Skip"));
    await click(button(page, "Send answers"));
    expect(sent).toEqual([{ answers: { "Which?": "A", "When?": NO_PREFERENCE } }]);
    const other = await show(<ApprovalCard approval={asked({ approvalKey: "s_9" })} onReply={onReply} />);
    await click(button(other.page, "Do not answer"));
    await write(labelled(other.page, "Reason for the agent"), " Not now ");
    await click(button(other.page, "Do not answer"));
    expect(sent[1]).toEqual({ decisions: [{ type: "reject", message: "Not now" }] });
  });

  it("keeps what was entered over a reload, until it is sent, and for the questions that were shown alone", async () => {
    const { onReply } = replies();
    const { page, draw } = await show(<ApprovalCard approval={asked()} onReply={onReply} />);
    const again = async (approval: ApprovalView) => {
      await draw(<p />);
      await draw(<ApprovalCard approval={approval} onReply={onReply} />);
      return page.querySelector("legend")?.textContent;
    };
    await click(labelled(page, "A"));
    await click(button(page, "Next"));
    expect(await again(asked())).toContain("When?");
    expect(await again(asked({ digest: "d2" }))).toContain("Which?");
    await again(asked());
    await click(button(page, "Skip"));
    await click(button(page, "Send answers"));
    expect(await again(asked())).toContain("Which?");
  });

  it("takes its words and classes from the provider", async () => {
    const { page } = await show(<ApprovalCard approval={asked()} />, {
      labels: { questions: { ...english.questions, next: "Tiếp" } },
      classNames: { next: "button primary" },
    });
    expect(button(page, "Tiếp")?.className).toBe("button primary");
  });

  it("shows afterwards what was answered, also from a block of the history", async () => {
    const answers = { "Which?": "A", "When?": NO_PREFERENCE };
    const { page, draw } = await show(<ApprovalCard approval={asked({ resolution: "decided", by: "ann", answers })} />);
    expect(page.querySelector("section p")?.textContent).toBe("Answered by ann");
    const pairs = () => [...page.querySelectorAll("dt, dd")].map((one) => one.textContent);
    expect(pairs()).toEqual(["Goal Which?", "A", "When?", "No preference"]);
    const block: HistoryStep = {
      type: "approval_request",
      isResolved: true,
      actionRequests: [{ name: "ask_user_question", args: { questions: questions as never, answers } }],
      submittedAnswers: answers,
    };
    await draw(<ResolvedQuestionBlock block={block} />);
    expect(pairs()).toEqual(["Goal Which?", "A", "When?", "No preference"]);
    await draw(<ApprovalCard approval={asked({ resolution: "decided", decisions: [{ type: "reject" }] })} />);
    expect([page.querySelector("section p")?.textContent, ...pairs()]).toEqual(["Rejected", "Goal Which?", "When?"]);
  });

  it("shows questions that it cannot read as they are, to be declined", async () => {
    const { sent, onReply } = replies();
    const actions = [{ name: "ask_user_question", args: { questions: "?" } }];
    const { page } = await show(<ApprovalCard approval={asked({ actions })} onReply={onReply} />);
    expect(page.querySelector("pre")?.textContent).toContain('"questions": "?"');
    expect(page.textContent).toContain("These questions cannot be shown.");
    await click(button(page, "Do not answer"));
    expect(sent).toEqual([{ decisions: [{ type: "reject" }] }]);
  });
});
