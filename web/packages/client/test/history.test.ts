import { describe, expect, it } from "vitest";
import { emptySession, foldAll, historyOf, keptTodos } from "../src/index.js";
import { delta, numbered, rest, run, S, start, stop, type Loose } from "./events.js";

const begin: Loose = { type: "message_start", message_id: "m1", role: "assistant" };
const end = (stop_reason = "end_turn"): Loose => ({ type: "message_stop", message_id: "m1", stop_reason });
const group = (n: number, ...inside: Loose[]): Loose[] => [
  { type: "group_start", message_id: "m1", group_id: `group-${n}` },
  ...inside,
];
const groupEnd = (n: number, summary?: string): Loose => ({
  type: "group_end",
  message_id: "m1",
  group_id: `group-${n}`,
  ...(summary === undefined ? {} : { summary }),
});
const text = (index: number, words: string, message_id = "m1"): Loose[] => [
  start(index, { type: "text" }, message_id),
  ...(words ? [delta(index, { type: "text_delta", text: words }, message_id)] : []),
  stop(index, message_id),
];
const thinking = (index: number, words: string): Loose[] => [
  start(index, { type: "thinking" }),
  delta(index, { type: "thinking_delta", thinking: words }),
  stop(index),
];
const use = (index: number, id: string, name: string, input: string, message?: string): Loose[] => [
  start(index, { type: "tool_use", id, name }),
  delta(index, { type: "input_json_delta", partial_json: input }),
  { ...stop(index), ...(message === undefined ? {} : { tool_content_message: message }) },
];
const result = (index: number, id: string, name: string, content: string): Loose[] => [
  start(index, { type: "tool_result", tool_use_id: id, name, status: "success" }),
  ...(content ? [delta(index, { content })] : []),
  stop(index),
];
const action_requests = (questions: unknown[]) => [{ name: "ask_user_question", args: { questions } }];
const ask = (index: number, n: number, questions: unknown[], expires_at?: string): Loose[] => [
  start(index, { type: "approval_request", approval_key: `${S}_${n}`, ...(expires_at ? { expires_at } : {}) }),
  delta(index, {
    action_requests: action_requests(questions),
    review_configs: [{ action_name: "ask_user_question", allowed_decisions: ["approve", "edit", "reject"] }],
    timeout_seconds: 600,
  }),
  stop(index),
];
const resolve = (n: number, resolution: string, more: object = {}): Loose => ({
  type: "approval_resolved",
  approval_key: `${S}_${n}`,
  resolution,
  ...more,
});
const user = (id: string, words: string): Loose[] => [
  { type: "message_start", message_id: id, role: "user" },
  ...text(0, words, id),
  { type: "message_stop", message_id: id, stop_reason: "end_turn" },
];
const history = (...events: Loose[]) => historyOf(run(numbered(events)));
const shape = (...events: Loose[]) => history(...events).map((m) => [m.display_type, m.summary]);

/** The long example of the document that describes questions: a person is asked twice. */
const round = (n: number, at: number): Loose[] => [
  ...group(n, ...thinking(at, "...")),
  ...use(
    at + 1,
    `tc-${n}`,
    "write_todos",
    `{"todos":[],"tool_content_message":"Chuẩn bị câu hỏi lần ${n}"}`,
    `Chuẩn bị câu hỏi lần ${n}`,
  ),
  ...result(at + 2, `tc-${n}`, "write_todos", "ok"),
  groupEnd(n, `Chuẩn bị câu hỏi lần ${n}`),
  ...ask(at + 3, n, ["..."], "2026-11-21T00:10:00Z"),
  { type: "run_status", status: "awaiting_input", pending: [`${S}_${n}`] },
  resolve(n, "decided", { by: "thao", answers: { [`Q${n}`]: `A${n}` } }),
  { type: "run_status", status: "running" },
];
const askedTwice = numbered([
  ...user("u1", "hãy hỏi 2 lần"),
  { type: "run_status", status: "running" },
  begin,
  ...round(1, 0),
  ...round(2, 4),
  ...text(8, "Cảm ơn! Tổng kết..."),
  end(),
  { type: "run_status", status: "completed" },
]);
const expectedRound = (n: number) => [
  {
    role: "assistant",
    content: [{ type: "thinking", thinking: "..." }],
    display_type: "group_start",
    summary: `Chuẩn bị câu hỏi lần ${n}`,
  },
  {
    role: "assistant",
    content: [],
    tool_calls: [
      { id: `tc-${n}`, name: "write_todos", args: { todos: [] }, tool_content_message: `Chuẩn bị câu hỏi lần ${n}` },
    ],
    display_type: "group_item",
  },
  {
    role: "tool",
    content: [{ type: "text", text: "ok" }],
    tool_call_id: `tc-${n}`,
    name: "write_todos",
    status: "success",
    display_type: "group_end",
    summary: `Chuẩn bị câu hỏi lần ${n}`,
  },
  {
    role: "assistant",
    content: [
      {
        type: "approval_request",
        isResolved: true,
        actionRequests: [
          { name: "ask_user_question", args: { questions: ["..."], answers: { [`Q${n}`]: `A${n}` } } },
        ],
        submittedAnswers: { [`Q${n}`]: `A${n}` },
      },
    ],
    message_type: "step",
    display_type: "content",
  },
];
const expected = [
  { role: "user", content: [{ type: "text", text: "hãy hỏi 2 lần" }], display_type: "content" },
  ...expectedRound(1),
  ...expectedRound(2),
  {
    role: "assistant",
    content: [{ type: "text", text: "Cảm ơn! Tổng kết...", is_final: true }],
    display_type: "content",
  },
];

it("w2: calls between which a person spoke stay where they were made", () => {
  const made = history(begin, ...use(0, "t1", "look", "{}"), ...user("u2", "And?"), ...use(1, "t2", "look", "{}"), end());
  expect(made.map((one) => [one.role, one.tool_calls?.map((call) => call.id)])).toEqual([["assistant", ["t1"]], ["user", undefined], ["assistant", ["t2"]]]);
});

describe("history", () => {
  it("is that of the example: asked twice", () => {
    expect(historyOf(run(askedTwice))).toStrictEqual(expected);
  });

  it("is the same wherever a connection broke, and folded at once", () => {
    for (let cut = 0; cut <= askedTwice.length; cut++) {
      const before = run(askedTwice.slice(0, cut));
      expect(historyOf(run(rest(askedTwice, cut), before)), `cut at ${cut}`).toStrictEqual(expected);
      expect(historyOf(foldAll(before, rest(askedTwice, cut)))).toStrictEqual(expected);
    }
    expect(historyOf(emptySession(S))).toEqual([]);
  });

  it("begins a group of one, and leaves an empty group out", () => {
    expect(
      shape(begin, ...group(1, ...use(0, "t1", "read", "{}", "Reading")), groupEnd(1, "Reading"), ...text(1, "Hi"), end()),
    ).toEqual([["group_start", "Reading"], ["content", undefined]]);
    expect(shape(begin, ...group(1), groupEnd(1), ...text(0, "Hi"), end())).toEqual([["content", undefined]]);
  });

  it("shows an open group as if it ended now, with its newest summary", () => {
    const open = [
      begin,
      ...group(1, ...thinking(0, "Hm")),
      ...use(1, "t1", "read", "{}", "Reading a"),
      ...result(2, "t1", "read", "a"),
      ...use(3, "t2", "read", "{}", "Reading b"),
    ];
    expect(shape(...open)).toEqual([
      ["group_start", "Reading b"],
      ["group_item", undefined],
      ["group_item", undefined],
      ["group_end", "Reading b"],
    ]);
    // Without a message of any call there is no summary.
    expect(shape(begin, ...group(1, ...thinking(0, "Hm")), ...use(1, "t1", "read", "{}"))).toEqual([
      ["group_start", undefined],
      ["group_end", undefined],
    ]);
  });

  it("keeps two groups apart that follow each other", () => {
    const events = [
      begin,
      ...group(1, ...thinking(0, "One")),
      ...thinking(1, "Two"),
      groupEnd(1),
      ...group(2, ...thinking(2, "Three")),
      groupEnd(2),
    ];
    expect(shape(...events).map(([type]) => type)).toEqual(["group_start", "group_end", "group_start"]);
  });

  it("joins the calls that follow each other directly", () => {
    const calls = (...events: Loose[]) => history(begin, ...events).map((m) => m.tool_calls?.map((c) => c.id));
    expect(calls(...group(1, ...use(0, "a", "x", "{}")), ...use(1, "b", "x", "{}"), groupEnd(1))).toEqual([["a", "b"]]);
    expect(calls(...use(0, "a", "x", "{}"), ...use(1, "b", "x", "{}"))).toEqual([["a", "b"]]);
    // Another group, or anything between them.
    expect(calls(...group(1, ...use(0, "a", "x", "{}")), groupEnd(1), ...use(1, "b", "x", "{}"))).toEqual([["a"], ["b"]]);
    expect(calls(...use(0, "a", "x", "{}"), ...result(1, "a", "x", ""), ...use(2, "b", "x", "{}"))).toEqual([
      ["a"],
      undefined,
      ["b"],
    ]);
  });

  it("keeps arguments exact, without what only said what the call does", () => {
    const [call] = history(
      begin,
      ...use(0, "t1", "trade", '{"price":1.10,"tool_content_message":"Order"}', "Order"),
      ...use(1, "t2", "trade", '{"tool_content_message":"an argument of its own"}'),
      ...use(2, "t3", "trade", "[1]"),
    );
    const [first, second, third] = call?.tool_calls ?? [];
    expect(first).toMatchObject({ tool_content_message: "Order" });
    expect(Object.entries(first?.args ?? {}).map(([k, v]) => [k, String(v)])).toEqual([["price", "1.10"]]);
    // The name is reserved also where nothing was said: the argument is never one of the tool's.
    expect(second?.args).toEqual({});
    expect(third).toStrictEqual({ id: "t3", name: "trade" });
  });

  it("shows a question that waits, and each way in which it ends", () => {
    const questions = [{ question: "Which?", multiSelect: false, options: [{ label: "A" }, { label: "Other", input: true }] }];
    const block = (...events: Loose[]) => history(begin, ...ask(0, 1, questions, "2026-11-21T00:10:00Z"), ...events)[0]?.content[0];
    const actionRequests = action_requests(questions);
    expect(block()).toStrictEqual({
      type: "approval_request",
      isResolved: false,
      approval_key: `${S}_1`,
      expires_at: "2026-11-21T00:10:00Z",
      actionRequests,
    });
    const answers = { "Which?": "[No preference]" };
    expect(block(resolve(1, "decided", { by: "alice", answers }))).toStrictEqual({
      type: "approval_request",
      isResolved: true,
      actionRequests: [{ name: "ask_user_question", args: { questions, answers } }],
      submittedAnswers: answers,
    });
    const over = { type: "approval_request", isResolved: true, actionRequests };
    expect(block(resolve(1, "decided", { by: "alice" }))).toStrictEqual({ ...over, resolution: "decided" });
    expect(block(resolve(1, "cancelled"))).toStrictEqual({ ...over, resolution: "cancelled" });
    const timeout = [start(1, { type: "approval_timeout", approval_key: `${S}_1` }), stop(1)];
    expect(block(resolve(1, "timeout"), ...timeout)).toStrictEqual({ ...over, resolution: "timeout" });
    expect(history(begin, ...ask(0, 1, questions), resolve(1, "timeout"), ...timeout)).toHaveLength(1);
  });

  it("shows an ordinary approval in its group", () => {
    const actions = [{ name: "trade", args: { q: 1 }, tool_use_id: "t1", args_digest: "ab" }];
    const review_configs = [{ require_approval: true, timeout: 300, allowed_decisions: ["approve", "reject"] }];
    const waiting = [
      begin,
      ...group(1, ...use(0, "t1", "trade", '{"q":1}')),
      start(1, { type: "approval_request", approval_key: `${S}_1`, actions, review_configs, expires_at: "2026-11-21T00:05:00Z" }),
      stop(1),
    ];
    const base = { type: "approval_request", approval_key: `${S}_1`, actionRequests: actions, reviewConfigs: review_configs };
    expect(history(...waiting)[1]).toStrictEqual({
      role: "assistant",
      content: [{ ...base, isResolved: false, expires_at: "2026-11-21T00:05:00Z" }],
      message_type: "step",
      display_type: "group_end",
    });
    const decided = [
      resolve(1, "decided", { by: "alice" }),
      start(2, { type: "approval_result", approval_key: `${S}_1` }),
      delta(2, { decisions: [{ type: "approve" }] }),
      stop(2),
      ...result(3, "t1", "trade", ""),
    ];
    const messages = history(...waiting, ...decided);
    expect(messages.map((m) => m.display_type)).toEqual(["group_start", "group_item", "group_end"]);
    expect(messages[1]?.content).toStrictEqual([
      { ...base, isResolved: true, resolution: "decided", submittedDecisions: [{ type: "approve" }] },
    ]);
    expect(messages[2]?.content).toEqual([{ type: "text", text: "" }]);
  });

  it("puts what a person says in mid-turn where it was said", () => {
    const said = history(begin, ...text(0, "One"), ...user("u2", "Wait"), ...text(1, "Two"), end()).map((m) => [
      m.role,
      m.content,
    ]);
    expect(said).toEqual([
      ["assistant", [{ type: "text", text: "One" }]],
      ["user", [{ type: "text", text: "Wait" }]],
      ["assistant", [{ type: "text", text: "Two", is_final: true }]],
    ]);
  });

  it("says who wrote a user's message, where people have names", () => {
    const said = (id: string, by?: string): Loose[] => [
      { type: "message_start", message_id: id, role: "user", ...(by === undefined ? {} : { by }) },
      ...text(0, "Buy", id),
      { type: "message_stop", message_id: id, stop_reason: "end_turn" },
    ];
    const view = run(numbered([...said("u1", "alice"), ...said("u2")]));
    expect(historyOf(view).map(({ by }) => by)).toEqual(["alice", undefined]);
    expect(historyOf(view)[1]).not.toHaveProperty("by");
  });

  it("leaves out what is empty or still streams, and calls only the end of a turn final", () => {
    expect(history(begin, ...text(0, ""), start(1, { type: "text" }), delta(1, { type: "text_delta", text: "half" }))).toEqual([]);
    const cut = history(begin, start(0, { type: "text" }), delta(0, { type: "text_delta", text: "half" }), end("cancelled"));
    expect(cut).toEqual([{ role: "assistant", content: [{ type: "text", text: "half" }], display_type: "content" }]);
  });

  it("marks what an answer that broke off had said, and calls none of it final", () => {
    const replaced: Loose = { type: "content_replaced", message_id: "m1", indexes: [0, 1] };
    const again = [begin, ...text(0, "Wo"), ...use(1, "a", "look", "{}"), replaced, ...use(2, "b", "look", "{}")];
    const messages = history(...again, ...result(3, "b", "look", "seen"), end());
    expect(messages.map((m) => [m.replaced, m.tool_calls?.map((c) => c.id)])).toEqual([
      [true, undefined],
      [true, ["a"]],
      [undefined, ["b"]],
      [undefined, undefined],
    ]);
    expect(messages[0]?.content).toEqual([{ type: "text", text: "Wo" }]);
  });

  it("says why the last text of a turn is not whole", () => {
    for (const reason of ["max_tokens", "refusal", "content_filter", "incomplete"]) {
      const last = history(begin, ...text(0, "As far as"), end(reason)).at(-1);
      expect(last?.content).toEqual([{ type: "text", text: "As far as", stop_reason: reason }]);
    }
    expect(history(begin, ...text(0, "x"), end("error")).at(-1)?.content).toEqual([{ type: "text", text: "x" }]);
  });
});

describe("todos", () => {
  const list = (content: string) => JSON.stringify({ todos: [{ content, status: "pending" }] });
  const failed = (index: number, id: string): Loose[] => [
    start(index, { type: "tool_result", tool_use_id: id, name: "write_todos", status: "error" }),
    stop(index),
  ];

  it("are those that the session keeps: of the newest call that succeeded", () => {
    const kept = (...events: Loose[]) =>
      keptTodos(foldAll(emptySession(S), numbered([begin, ...events])).messages)?.map((todo) => todo.content);
    const first = [...use(0, "a", "write_todos", list("one")), ...result(1, "a", "write_todos", "ok")];
    expect(kept()).toBeUndefined();
    expect(kept(...use(0, "a", "write_todos", list("one")))).toBeUndefined();
    expect(kept(...first)).toEqual(["one"]);
    expect(kept(...first, ...use(2, "b", "write_todos", list("two")), ...failed(3, "b"))).toEqual(["one"]);
    expect(kept(...first, ...use(2, "b", "write_todos", list("two")), ...result(3, "b", "write_todos", "ok"))).toEqual(["two"]);
    const again: Loose = { type: "message_start", message_id: "m2", role: "assistant" };
    const late = result(0, "b", "write_todos", "ok").map((event) => ({ ...event, message_id: "m2" }));
    expect(kept(...first, ...use(2, "b", "write_todos", list("two")), end("error"), again, ...late)).toEqual(["two"]);
  });

  it("has the images of what a person said, in their place", () => {
    const dot = { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" };
    const url = { type: "url", url: "https://example.com/a.png" };
    const said: Loose[] = [
      { type: "message_start", message_id: "u1", role: "user" },
      start(0, { type: "image", source: dot }, "u1"),
      stop(0, "u1"),
      ...text(1, "What is this?", "u1"),
      start(2, { type: "image", source: url }, "u1"),
      stop(2, "u1"),
      { type: "message_stop", message_id: "u1", stop_reason: "end_turn" },
    ];
    const view = run(numbered(said));
    expect(view.messages[0]?.blocks).toMatchObject([{ type: "image", source: dot }, { type: "text" }, { type: "image", source: url }]);
    expect(historyOf(view)).toEqual([
      {
        role: "user",
        content: [{ type: "image", source: dot }, { type: "text", text: "What is this?" }, { type: "image", source: url }],
        display_type: "content",
      },
    ]);
    // A replay is the same, and shares what did not change.
    expect(run(numbered(said), view)).toBe(view);
  });
});
