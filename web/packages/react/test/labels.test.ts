import { describe, expect, it } from "vitest";
import { CountersignError, type ApprovalView, type JsonObject, type ReviewConfig } from "@countersign/client";
import { english } from "../src/en.js";
import { filled, type Labels, type TextKey } from "../src/labels.js";
import { vietnamese } from "../src/vi.js";
import { chinese } from "../src/zh.js";

const placeholders = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]).sort();
const resolved = (more: Partial<ApprovalView>) => ({ resolution: "decided", by: "ann", ...more }) as ApprovalView;

/** Every word of the cards, each with a name. */
function words({ texts, language: _language, choices, questions, waitingFor, progress, unknownKind, error, resolved: how, ...plain }: Labels): Record<string, string> {
  const { place, ownFor, changeOne, ...rest } = questions;
  const all = {
    ...texts,
    ...plain,
    ...Object.fromEntries(Object.entries({ ...choices, ...rest }).map(([name, word]) => [`inside.${name}`, word])),
    place: place(1, 2),
    ownFor: ownFor("x"),
    changeOne: changeOne("x"),
    owner: waitingFor(undefined),
    role: waitingFor("x"),
    progress: progress(1, 2),
    unknownKind: unknownKind("x"),
    error: String(error(new CountersignError("not_found", "no such thing"))),
    timeout: how(resolved({ resolution: "timeout" })),
    cancelled: how(resolved({ resolution: "cancelled" })),
    withdrawn: how(resolved({ resolution: "cancelled", reason: "call_ended" })),
    answered: how(resolved({ answers: {} })),
    over: how(resolved({ resolution: "x" })),
    changed: how(resolved({ decisions: [{ type: "edit" } as never], reviewConfigs: [{ level: 2 }] })),
    ...Object.fromEntries((["approve", "reject", "edit", "respond", "defer"] as const).map((type) => [`done.${type}`, how(resolved({ decisions: [{ type } as never] }))])),
  };
  return all as Record<string, string>;
}

describe.each([
  ["vi", vietnamese],
  ["zh", chinese],
] as const)("the words in %s", (language, labels) => {
  it("u2: are all there, and none of them is English", () => {
    const [own, theirs] = [words(labels), words(english)];
    expect(labels.language).toBe(language);
    expect(Object.keys(own).sort()).toEqual(Object.keys(theirs).sort());
    const alike = Object.keys(own).filter((name) => own[name] === theirs[name]);
    // Only texts without words may be the same.
    expect(alike.filter((name) => /[a-z]{2}/i.test(filled(own[name]!, { text: "" })))).toEqual(["edit.json"]);
  });

  it("have the same places for values", () => {
    for (const key of Object.keys(english.texts) as TextKey[]) expect(placeholders(labels.texts[key]), key).toEqual(placeholders(english.texts[key]));
  });
});

it.each([
  [english, "This request is already resolved: Approved by ann.", "This request is already resolved: Nobody decided in time."],
  [vietnamese, "Yêu cầu này đã được xử lý: Đã phê duyệt bởi ann.", "Yêu cầu này đã được xử lý: Không ai quyết định kịp thời."],
  [chinese, "此请求已处理：已批准（ann）。", "此请求已处理：无人及时决定。"],
])("r2: what says that it is too late says who was first, and how, $0.language", ({ error }, decided, timeout) => {
  const late = (details: JsonObject) => error(new CountersignError("approval_already_resolved", "s_1 is already resolved", { details }));
  expect(late({ resolution: "decided", by: "ann", decisions: [{ type: "approve" }] })).toBe(decided);
  expect(late({ resolution: "timeout", by: null })).toBe(timeout);
});

it.each([vietnamese, chinese])("u2: what the client says itself is in the page's language, and not said to be the server's, $language", ({ error }) => {
  for (const code of ["offline", "closed", "unreachable", "unauthenticated", "bad_json", "too_large", "http_502"] as const) {
    const said = String(error(new CountersignError(code, "Words of the client.")));
    expect(said, code).not.toMatch(/Words|Máy chủ cho biết|服务器说明/);
    expect(said, code).toMatch(/[^\x00-\x7f]/);
  }
  // The cut emoji is only one of the server's many reasons.
  expect(error(new CountersignError("bad_json", "the number 1e400 cannot be held exactly", { status: 400, byServer: true }))).toMatch(/(Máy chủ cho biết: |服务器说明：)the number 1e400/);
  expect(error(new CountersignError("http_502", ""))).toContain("HTTP 502");
  expect(error(new CountersignError("not_found", "No such page."))).toContain("No such page.");
});

it("a value is put into its place as it is", () => {
  expect(filled("{n} of {of}, {other}", { n: "$& {of}", of: 2 })).toBe("$& {of} of 2, {other}");
});

it("Chinese has its own punctuation", () => {
  const wrong = Object.values(words(chinese)).filter((text) => /\p{Script=Han}[,.:;!?()]|[,:;!?()]\p{Script=Han}/u.test(text));
  expect(wrong).toEqual([]);
});

it("w5: an edit after which people are asked again is not said to be an approval", () => {
  const edit = { type: "edit", edited_action: { name: "pay", args: {} } } as const;
  const said = (config: ReviewConfig) => english.resolved(resolved({ decisions: [edit], reviewConfigs: [config] }));
  expect(said({})).toBe("Approved with changes by ann");
  const again: ReviewConfig[] = [{ level: 2 }, { quorum: 2 }, { not_self: true, role: "admin" }];
  for (const config of again) expect(said(config)).toBe("Changed and sent for approval again by ann");
});
