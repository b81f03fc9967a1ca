// @vitest-environment jsdom
import { act, StrictMode } from "react";
import { describe, expect, it, vi } from "vitest";
import { CountersignError, LosslessNumber, NO_PREFERENCE, stringifyJson, type ApprovalView, type HistoryStep, type JsonValue } from "@countersign/client";
import { chinese } from "../src/zh.js";
import { vietnamese } from "../src/vi.js";
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
      ["Reject", "Reason (the agent will read it)", " too dear ", { type: "reject", message: "too dear" }],
      ["Enter result without running", "Result to give the agent", "paid by hand", { type: "respond", output: "paid by hand" }],
    ] as const) {
      const { sent, onReply } = replies();
      const { page } = await show(<ApprovalCard approval={request()} onReply={onReply} />);
      await click(labelled(page, choice));
      if (field) await write(labelled(page, field), text);
      await write(labelled(page, "Comment for the agent"), "Be quick");
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
    await write(labelled(page, "Reason (the agent will read it)"), "No");
    await click(button(page, "Send"));
    expect(alert(page)).toBe("n: 1 is less than 5");
    expect((labelled(page, "Reason (the agent will read it)") as HTMLTextAreaElement).value).toBe("No");
    await click(button(page, "Send"));
    expect([onReply.mock.calls.length, alert(page)]).toEqual([2, ""]);
  });

  it("sends again what its program refused at once", async () => {
    const onReply = vi.fn().mockImplementationOnce(() => { throw new CountersignError("invalid_edit", "not now"); }).mockResolvedValue(undefined);
    const { page } = await show(<ApprovalCard approval={request()} onReply={onReply} />);
    await click(labelled(page, "Reject"));
    await click(button(page, "Send"));
    expect(alert(page)).toBe("not now");
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

  it("tells after it was away why its reply was refused meanwhile, once", async () => {
    for (const back of [false, true]) {
      let refuse: (reason: unknown) => void = () => {};
      const onReply = vi.fn(() => new Promise((_, no) => (refuse = no)));
      const approval = request({ approvalKey: `s_${back}` });
      const card = <StrictMode><ApprovalCard approval={approval} onReply={onReply} /></StrictMode>;
      const { page, draw } = await show(card);
      await click(labelled(page, "Approve"));
      await click(button(page, "Send"));
      await draw(<p />);
      if (back) await draw(card);
      await act(async () => refuse(new CountersignError("stale_action", "It is another one now.")));
      await draw(card);
      expect([alert(page), (labelled(page, "Approve") as HTMLInputElement).checked]).toEqual(["It is another one now.", true]);
      await draw(<p />);
      await draw(card);
      expect(alert(page)).toBe("");
    }
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
    const { page, draw } = await show(<ApprovalCard approval={request({ reviewConfigs })} onReply={onReply} />);
    await click(labelled(page, "Approve"));
    await click(button(page, "Send"));
    expect(page.querySelector('[role="status"]')?.textContent).toBe("You have approved.");
    expect([page.querySelectorAll("input:checked").length, page.querySelector("fieldset")?.disabled]).toEqual([0, false]);
    // Another request with the same key, as after a restored backup: nothing of it is approved.
    await draw(<ApprovalCard approval={request({ reviewConfigs, digest: "d2" })} onReply={onReply} />);
    expect(page.textContent).not.toContain("You have approved.");
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
    expect(page.querySelector("section p")?.textContent).toBe("Approved with changes by bob");
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

describe("arguments with a schema", () => {
  const schema = {
    type: "object",
    required: ["to", "n"],
    properties: {
      day: { type: "string", format: "date", title: "Day" },
      how: { enum: ["slow", "fast"] },
      n: { type: "integer", title: "Number", minimum: 5, "x-unit": "VND" },
      to: { type: "object", title: "Receiver", required: ["name"], properties: { name: { type: "string", title: "Name", minLength: 2 } } },
    },
  };
  const args = { n: new LosslessNumber("9007199254740993"), day: "2026-03-01", how: "slow", to: { name: "Ann" } };
  const booked = (more: Partial<ApprovalView> = {}) =>
    request({
      actions: [{ name: "pay", args, digest: "d1", args_digest: "a1" }],
      reviewConfigs: [{ allowed_decisions: ["approve", "edit"], args_schema: schema as never }],
      ...more,
    });
  const text = (page: Element, part: string) => [...page.querySelectorAll(`[data-part="${part}"]`)].map((one) => one.textContent?.trim());
  const choose = (field: Element | null, value: string) =>
    act(async () => {
      Object.getOwnPropertyDescriptor(HTMLSelectElement.prototype, "value")?.set?.call(field, value);
      field?.dispatchEvent(new Event("change", { bubbles: true }));
    });

  it("u2: are a table in the schema's order, with titles, units and what dates mean, and the exact text one press away", async () => {
    const { page } = await show(<ApprovalCard approval={booked()} />);
    const rows = [...page.querySelectorAll('[data-part="args"] > dl > [data-part="arg"]')].map((row) => row.textContent);
    expect(rows).toEqual(["Receiver toName nameAnn", "Number n9007199254740993 VND", "Day day2026-03-01 · Sunday, March 1, 2026", "howslow"]);
    const exact = page.querySelector<HTMLElement>('[data-part="shown"]')!;
    expect(exact.hidden).toBe(true);
    await click(button(page, "Exact JSON"));
    expect([exact.hidden, exact.textContent?.includes('"n": 9007199254740993')]).toEqual([false, true]);
  });

  it("u2: are edited in the form, checked while typing, and sent with every digit that nobody has changed", async () => {
    const { sent, onReply } = replies();
    const { page } = await show(<ApprovalCard approval={booked()} onReply={onReply} />);
    await click(labelled(page, "Edit"));
    await write(page.querySelector('input[id$="-to-name"]'), "B");
    expect(text(page, "problem")).toEqual(["Minimum length: 2."]);
    const name = page.querySelector<HTMLInputElement>('[data-part="nested"] input')!;
    expect([name.getAttribute("aria-invalid"), document.getElementById(name.getAttribute("aria-describedby")!)?.textContent]).toEqual(["true", "Minimum length: 2."]);
    await click(button(page, "Send"));
    expect([alert(page), sent.length]).toEqual(["Fix the marked fields first.", 0]);
    await write(name, "Bob");
    await choose(page.querySelector("select"), '"fast"');
    expect([alert(page), text(page, "problem")]).toEqual(["", []]);
    expect([...page.querySelectorAll('[data-part="changes"] li')].map((li) => li.textContent)).toEqual(["howslow→fast", "Receiver › Name to.nameAnn→Bob"]);
    await click(button(page, "Send"));
    const edited = '{"n":9007199254740993,"day":"2026-03-01","how":"fast","to":{"name":"Bob"}}';
    expect(stringifyJson(sent)).toBe(`[{"decisions":[{"type":"edit","edited_action":{"name":"pay","args":${edited}},"args_digest":"a1","digest":"d1"}]}]`);
  });

  it("u2: lead to a list that is wrong as a whole", async () => {
    const list = { type: "object", properties: { tags: { type: "array", minItems: 2, items: { type: "string" } } } };
    const approval = booked({ actions: [{ name: "pay", args: { tags: ["a", "b"] } }], reviewConfigs: [{ allowed_decisions: ["edit"], args_schema: list as never }] });
    const { page } = await show(<ApprovalCard approval={approval} onReply={replies().onReply} />);
    await click(labelled(page, "Edit"));
    await click(page.querySelector('[data-part="remove"]'));
    (document.activeElement as HTMLElement).blur();
    await click(button(page, "Send"));
    await act(() => new Promise((done) => requestAnimationFrame(done)));
    expect(document.activeElement?.id).toBe(page.querySelector('[data-part="entry"] input')!.id);
  });

  it("u2: are not sent by Enter in one of their fields", async () => {
    const { sent, onReply } = replies();
    const { page } = await show(<ApprovalCard approval={booked()} onReply={onReply} />);
    await click(labelled(page, "Edit"));
    const enter = new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true });
    await act(async () => void page.querySelector('[data-part="nested"] input')!.dispatchEvent(enter));
    expect([enter.defaultPrevented, sent]).toEqual([true, []]);
  });

  it("u2: say at their field what the server has refused, until it is typed in again", async () => {
    const errors = [{ pointer: "/decisions/0/edited_action/args/to/name", message: "is nobody" }];
    const onReply = vi.fn().mockRejectedValue(new CountersignError("invalid_edit", "no", { details: { errors } }));
    const { page } = await show(<ApprovalCard approval={booked()} onReply={onReply} />);
    await click(labelled(page, "Edit"));
    const name = () => page.querySelector('[data-part="nested"] input');
    await write(name(), "Bob");
    await click(button(page, "Send"));
    expect(text(page, "problem")).toEqual(["This value is not accepted. The server says: is nobody"]);
    await write(name(), "Bobby");
    expect([text(page, "problem"), alert(page)]).toEqual([[], ""]);
  });

  it("u2: say what the server has refused where no field says it, in every language", async () => {
    const errors = [{ pointer: "/decisions/0/edited_action/args/x\u202e", message: "is not known" }, { pointer: "", message: "is too dear" }];
    for (const labels of [english, vietnamese, chinese]) {
      const onReply = vi.fn().mockRejectedValue(new CountersignError("invalid_edit", "no", { details: { errors } }));
      const { page } = await show(<ApprovalCard approval={booked({ approvalKey: `refused-${labels.language}` })} onReply={onReply} />, { labels });
      await click(labelled(page, labels.choices.edit));
      await click(button(page, labels.texts["edit.json"]));
      await click(button(page, labels.send));
      expect([...page.querySelectorAll('[role="alert"] li')].map((one) => one.textContent?.trim())).toEqual(
        [`x⟨U+202E⟩ ${labels.texts["refusal.reason"]}is not known`, `${labels.texts["refusal.reason"]}is too dear`],
      );
    }
  });

  it("x: that are long are not approved before they have been seen to their end, and may be rejected", async () => {
    const { sent, onReply } = replies();
    const long = { name: "pay", args: { text: "word ".repeat(1000) }, digest: "d1" };
    const { page } = await show(<ApprovalCard approval={request({ actions: [long] })} onReply={onReply} />);
    expect(page.querySelector<HTMLElement>('[data-part="shown"]')?.hidden).toBe(false);
    await click(labelled(page, "Approve"));
    await click(button(page, "Send"));
    expect([alert(page), sent.length]).toEqual([english.texts["shown.long"], 0]);
    await click(button(page, "Show all"));
    await click(button(page, "Send"));
    expect(sent).toMatchObject([{ decisions: [{ type: "approve" }] }]);
    const other = await show(<ApprovalCard approval={request({ approvalKey: "s_2", actions: [long] })} onReply={onReply} />);
    await click(labelled(other.page, "Reject"));
    await click(button(other.page, "Send"));
    expect(sent[1]).toMatchObject({ decisions: [{ type: "reject" }] });
  });

  it("x: that take the place of others under the same key have not been seen with them", async () => {
    const { sent, onReply } = replies();
    const long = (word: string, digest: string) =>
      request({ actions: [{ name: "pay", args: { text: `${word} `.repeat(1000) }, digest }], digest });
    const { page, draw } = await show(<ApprovalCard approval={long("word", "d1")} onReply={onReply} />);
    await click(button(page, "Show all"));
    await draw(<ApprovalCard approval={long("other", "d2")} onReply={onReply} />);
    await click(labelled(page, "Approve"));
    await click(button(page, "Send"));
    expect([alert(page), sent]).toEqual([english.texts["shown.long"], []]);
  });

  it("u2: speak Vietnamese, and Chinese without a word of English", async () => {
    for (const labels of [vietnamese, chinese]) {
      const { page } = await show(<ApprovalCard approval={booked({ approvalKey: labels.language })} />, { labels });
      await click(labelled(page, labels.choices.edit));
      await write(page.querySelector('input[id$="-n"]'), "1");
      expect(text(page, "problem")).toEqual([labels.texts["edit.error.min"].replace("{n}", "5")]);
      // All words in Latin letters come from the schema and the call.
      const own = page.textContent!.replace(/Receiver|Name|Number|Day|VND|JSON|name|slow|fast|pay|day|how|admin|Ann/g, "");
      if (labels === chinese) expect(own.match(/[A-Za-z]{3,}/g) ?? []).toEqual([]);
    }
  });
});

describe("what is asked in the middle of a call", () => {
  const schema = (content?: object) => ({
    type: "object",
    required: ["action"],
    oneOf: [
      { type: "object", properties: { action: { const: "accept" }, ...(content ? { content } : {}) } },
      { type: "object", properties: { action: { enum: ["decline", "cancel"] } } },
    ],
  });
  const asks = (payload: object, content?: object) =>
    request({
      kind: "input",
      actions: [{ name: "buy", args: {} }],
      interrupt: { node: "", name: "", payload: { from: "shop", message: "How many?", ...payload }, schema: schema(content) } as never,
    });
  const form = { type: "object", required: ["n"], properties: { n: { type: "integer", title: "Number", maximum: 9 } } };

  it("u2: is a form of the server's fields, and its answer says that it was accepted", async () => {
    const { sent, onReply } = replies();
    const { page } = await show(<ApprovalCard approval={asks({ mode: "form" }, form)} onReply={onReply} />);
    expect(page.querySelector('[data-part="server-says"]')?.textContent).toBe("The server “shop” says (not verified)How many?");
    await write(page.querySelector('input[type="text"]'), "10");
    await click(button(page, "Accept and send"));
    expect([alert(page), page.querySelector('[data-part="problem"]')?.textContent, sent.length]).toEqual(["Fix the marked fields first.", "At most 9.", 0]);
    await write(page.querySelector('input[type="text"]'), "3");
    await click(button(page, "Accept and send"));
    expect(sent).toEqual([{ resume: { action: "accept", content: { n: 3 } } }]);
  });

  it("u2: says which server asks, with what misleads in its name, in every language", async () => {
    const said = ["The server “s⟨U+202E⟩p” says", "Lời của máy chủ “s⟨U+202E⟩p”", "服务器“s⟨U+202E⟩p”的说法"];
    for (const [i, labels] of [english, vietnamese, chinese].entries()) {
      const { page } = await show(<ApprovalCard approval={asks({ mode: "form", from: "s\u202ep" }, form)} />, { labels });
      expect(page.querySelector('[data-part="server-says"] [data-part="label"]')?.textContent).toContain(said[i]);
    }
  });

  it("u2: is an address to open, which shows where it leads, and can be declined", async () => {
    const { sent, onReply } = replies();
    const address = { mode: "url", url: "https://good.example@bad.example/x", host: "good.example" };
    const { page } = await show(<ApprovalCard approval={asks(address)} onReply={onReply} />);
    expect(page.querySelector("strong")?.textContent).toBe("bad.example");
    await click(button(page, "Decline"));
    expect(sent).toEqual([{ resume: { action: "decline" } }]);
  });

  it("u2: says what the server has refused of an answer, at its field or else below", async () => {
    const errors = ["/content/n", "/content/m", "/content"].map((pointer) => ({ pointer, message: `${pointer} is wrong` }));
    const onReply = vi.fn().mockRejectedValue(new CountersignError("invalid_resume", "no", { details: { errors } }));
    const { page } = await show(<ApprovalCard approval={asks({ mode: "form" }, form)} onReply={onReply} />, { labels: chinese });
    await write(page.querySelector('input[type="text"]'), "3");
    await click(button(page, chinese.texts["elicit.accept"]));
    const said = (where: string) => [...page.querySelectorAll(where)].map((one) => /\/content.*/.exec(one.textContent!)?.[0]);
    expect([said('[data-part="problem"]'), said('[role="alert"] li')]).toEqual([["/content/n is wrong"], ["/content/m is wrong", "/content is wrong"]]);
  });

  it("u2: of a node of a graph is a form of its schema", async () => {
    const { sent, onReply } = replies();
    const interrupt = { node: "article", name: "review", payload: "Green?", schema: { type: "boolean" } };
    const { page } = await show(<ApprovalCard approval={request({ kind: "interrupt", interrupt: interrupt as never })} onReply={onReply} />);
    const select = page.querySelector("select")!;
    expect([...select.options].map((one) => one.textContent)).toEqual(["not set", "Yes", "No"]);
    await act(async () => {
      select.value = "false";
      select.dispatchEvent(new Event("change", { bubbles: true }));
    });
    await click(button(page, "Send"));
    expect(sent).toEqual([{ resume: false }]);
  });
});

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

  it("keeps apart what is written into two options of one question", async () => {
    const { sent, onReply } = replies();
    const own = (multiSelect: boolean, approvalKey = "s_1") =>
      asked({ approvalKey, actions: [{ name: "ask_user_question", args: { questions: [{ question: "How much?", multiSelect, options: [{ label: "Amount", input: true }, { label: "Share", input: true }] }] } }] });
    const field = (page: Element, label: string) => labelled(page, `Your answer for “${label}”`) as HTMLInputElement;
    const one = await show(<ApprovalCard approval={own(false)} onReply={onReply} />);
    await write(field(one.page, "Amount"), "500");
    expect(field(one.page, "Share").value).toBe("");
    await write(field(one.page, "Share"), "a half");
    expect(field(one.page, "Amount").value).toBe("500");
    await click(labelled(one.page, "Amount"));
    await click(button(one.page, "Send answer"));
    const both = await show(<ApprovalCard approval={own(true, "s_2")} onReply={onReply} />);
    await write(field(both.page, "Share"), "a half");
    await click(labelled(both.page, "Amount"));
    await click(button(both.page, "Send answer"));
    expect(["Amount", "Share"].map((label) => field(both.page, label).getAttribute("aria-invalid"))).toEqual(["true", null]);
    await write(field(both.page, "Amount"), "500");
    await click(button(both.page, "Send answer"));
    expect(sent).toEqual([{ answers: { "How much?": "500" } }, { answers: { "How much?": "500, a half" } }]);
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
    await write(labelled(other.page, "Reason (the agent will read it)"), " Not now ");
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
