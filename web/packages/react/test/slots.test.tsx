// @vitest-environment jsdom
/** The parts of the cards that a page draws itself. */
import { useState } from "react";
import { expect, it, vi } from "vitest";
import { CountersignError, type ApprovalView, type JsonValue } from "@countersign/client";
import { ApprovalCard, QuestionCard, readReply, useDecisions, type CardComponents, type FrameProps, type ResolvedProps, type PendingProps } from "../src/index.js";
import { button, click, labelled, request, show, write } from "./page.js";

const questions: JsonValue = [{ question: "Which?", multiSelect: false, options: [{ label: "A" }, { label: "B" }] }];
const asked = (args: JsonValue = { questions }) => request({ kind: "question", actions: [{ name: "ask", args: args as never }], reviewConfigs: [] });
const interrupt = { node: "article", name: "review", payload: "Green?" };
const node = request({ kind: "interrupt", actions: [{ name: "review", args: { text: "Green?" } }], interrupt });

/** A person who may only look gets no means to reply. */
const framed = (looksOnly = false): Partial<CardComponents> => ({
  Frame: ({ approval, replying, problem, problems = [], asked, children }: FrameProps) => (
    <article data-kind={approval.kind} data-state={replying.state}>
      <header>{asked}</header>
      {!looksOnly && children}
      <footer>{[...(problem ? [problem] : []), ...problems.map(({ what, message }) => `${what}: ${message}`)].join()}</footer>
    </article>
  ),
});
const own = framed();
const looking = framed(true);

it("u2: the page's own frame stands around every request that waits, and says what is wrong with a reply", async () => {
  const refusals = {
    approval: ["invalid_edit", { errors: [{ pointer: "/decisions/0/edited_action/args/n", message: "too low" }] }, "n: too low"],
    question: ["invalid_answers", { errors: [{ question: "Which?", message: "not offered" }] }, "Which?: not offered"],
    interrupt: ["invalid_resume", { errors: [{ pointer: "", message: "no value" }] }, ": no value"],
  } as const;
  const fill = {
    approval: async (page: Element) => {
      await click(labelled(page, "Edit"));
      await write(labelled(page, "Arguments as JSON"), '{"n": 2}');
    },
    question: async (page: Element) => await click(labelled(page, "A")),
    interrupt: async (page: Element) => await write(page.querySelector("textarea"), "1"),
  };
  for (const approval of [request(), asked(), node]) {
    const kind = approval.kind as keyof typeof refusals;
    const [code, details, said] = refusals[kind];
    const onReply = vi.fn().mockRejectedValueOnce(new CountersignError(code, "no", { details: details as never })).mockResolvedValue(undefined);
    const { page } = await show(<ApprovalCard approval={approval} components={own} onReply={onReply} />);
    expect([page.querySelector("[data-countersign]"), page.querySelector("article")?.dataset.kind]).toEqual([null, kind]);
    const send = () => click(button(page, kind === "question" ? "Send answer" : "Send"));
    await send();
    expect(onReply).not.toHaveBeenCalled();
    await fill[kind](page);
    await send();
    expect(page.querySelector("footer")?.textContent).toBe(said);
    await send();
    expect([onReply.mock.calls.length, page.querySelector("article")?.dataset.state]).toEqual([2, "sent"]);
  }
});

it("u2: a frame that leaves out the means to reply shows what is asked, and nothing to press", async () => {
  for (const [approval, text] of [[asked({ questions: "?" }), '"questions": "?"'], [node, "Green?"]] as const) {
    const { page } = await show(<ApprovalCard approval={approval} components={looking} />);
    expect(page.querySelector("header")?.textContent).toContain(text);
    expect(page.querySelector("form, [data-part=buttons]")).toBeNull();
  }
});

it("u2: calls, and questions that can be read, stand with their choices, and go with them", async () => {
  for (const [approval, text] of [[asked(), "Which?"], [request(), "pay"]] as const) {
    const whole = await show(<ApprovalCard approval={approval} components={own} />);
    expect([whole.page.querySelector("header")?.textContent, whole.page.textContent?.includes(text)]).toEqual(["", true]);
    const { page } = await show(<ApprovalCard approval={approval} components={looking} />);
    expect(page.textContent).toBe("");
  }
});

it("u2: the page's own end of a request has what was answered, and knows of a reply that came too late", async () => {
  const components: Partial<CardComponents> = {
    Resolved: ({ approval, replying, children }: ResolvedProps) => <article data-late={replying.error?.code} data-by={approval.by}>{children}</article>,
  };
  const late = new CountersignError("approval_already_resolved", "bob was first");
  const onReply = vi.fn().mockRejectedValue(late);
  const { page, draw } = await show(<QuestionCard approval={asked()} components={components} onReply={onReply} />);
  await click(labelled(page, "A"));
  await click(button(page, "Send answer"));
  const over = { ...asked(), resolution: "decided" as const, by: "bob", answers: { "Which?": "B" } };
  await draw(<QuestionCard approval={over} components={components} onReply={onReply} />);
  const { late: code, by } = page.querySelector("article")!.dataset;
  expect([code, by, page.querySelector("dd")?.textContent, page.querySelector("[data-countersign]")]).toEqual([late.code, "bob", "B", null]);
  await draw(<ApprovalCard approval={{ ...request(), approvalKey: "s_2", resolution: "timeout" }} components={components} />);
  expect([page.querySelector("article")?.dataset.late, page.querySelector("figcaption")?.textContent]).toEqual([undefined, "pay"]);
});

it("u2: the page's own way to decide begins anew with other calls under the same key, and only then", async () => {
  function Press({ approval, replying, Frame }: PendingProps) {
    const [pressed, press] = useState(0);
    const { send } = useDecisions({ approval, replying });
    return (
      <Frame approval={approval} replying={replying}>
        <button onClick={() => press(pressed + 1)}>{`${approval.actions[0]!.name} ${pressed}`}</button>
        <button onClick={() => void send([{ choice: "approve", reason: "", output: "" }])}>Yes</button>
      </Frame>
    );
  }
  const components = { Decisions: Press };
  const onReply = vi.fn().mockResolvedValue(undefined);
  const drawn = (approval: ApprovalView) => <ApprovalCard approval={approval} components={components} onReply={onReply} />;
  const { page, draw } = await show(drawn(request()));
  const [first] = page.querySelectorAll("button");
  await click(first);
  await draw(drawn(request({ updates: [{ update: "comment", text: "hm" }] })));
  expect(page.querySelector("button")?.textContent).toBe("pay 1");
  await draw(drawn(request({ digest: "d2" })));
  expect(page.querySelector("button")?.textContent).toBe("pay 0");
  // Only calls are decided so.
  await click(button(page, "Yes"));
  expect(onReply.mock.calls.map(([, reply]) => reply)).toMatchObject([{ decisions: [{ type: "approve", digest: "d1" }] }]);
  expect(page.querySelector("[data-countersign]")?.getAttribute("data-state")).toBe("sent");
  // The stored decision was about the calls shown then.
  await draw(drawn(request({ digest: "d3" })));
  expect(page.querySelector("[data-countersign]")?.getAttribute("data-state")).toBe("idle");
  await draw(drawn({ ...node, approvalKey: "s_3" }));
  expect(button(page, "Yes")).toBeUndefined();
});

it("u2: what the cards keep of a reply is read back, whatever is asked", async () => {
  const kept = async (approval: ApprovalView, enter: (page: Element) => Promise<unknown>) => {
    const { page } = await show(<ApprovalCard approval={approval} />);
    expect(readReply(approval)).toBeUndefined();
    await enter(page);
    return readReply({ ...approval, digest: "other" }) ?? readReply(approval);
  };
  expect(await kept(request(), (page) => click(labelled(page, "Edit")))).toMatchObject({ calls: [{ choice: "edit" }] });
  expect(await kept({ ...asked(), approvalKey: "s_2" }, (page) => click(labelled(page, "A")))).toMatchObject({ answers: [{ chosen: ["A"] }] });
  expect(await kept({ ...node, approvalKey: "s_3" }, (page) => write(page.querySelector("textarea"), "1"))).toMatchObject({ texts: { "": "1" } });
});
