import { CountersignError, type JsonObject } from "@countersign/client";
import { english } from "@countersign/react/en";
import { describe, expect, it } from "vitest";
import { errorText } from "../src/components/errorText.js";
import { en } from "../src/i18n/en.js";
import { vi } from "../src/i18n/vi.js";
import { zh } from "../src/i18n/zh.js";
import { pickLanguage, translate } from "../src/i18n/index.js";

const placeholders = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]).sort();

describe.each([
  ["vi", vi],
  ["zh", zh],
] as const)("catalogue %s", (_, catalogue) => {
  it("has exactly the keys of the English one", () => {
    expect(Object.keys(catalogue).sort()).toEqual(Object.keys(en).sort());
  });

  it("has the same placeholders in every text, and no empty text", () => {
    for (const key of Object.keys(en) as (keyof typeof en)[]) {
      expect(placeholders(catalogue[key]), key).toEqual(placeholders(en[key]));
      expect(catalogue[key].trim(), key).not.toBe("");
    }
  });
});

it("Chinese has its own punctuation", () => {
  const wrong = Object.values(zh).filter((text) => /\p{Script=Han}[,.:;!?()]|[,:;!?()]\p{Script=Han}/u.test(text));
  expect(wrong).toEqual([]);
});

it.each([en, vi, zh])("what the client refuses to send is told in words of the page", (catalogue) => {
  for (const code of ["bad_json", "too_large", "offline", "closed", "unreachable", "unauthenticated"] as const) {
    const said = errorText(new CountersignError(code, "Words of the client."), (key, params) => translate(catalogue, key, params), english.resolved);
    expect([said, said === catalogue["error.other"]], code).toEqual([catalogue[`error.${code}`], false]);
  }
  const answered = new CountersignError("bad_json", "the number 1e400 cannot be held exactly", { status: 400, byServer: true });
  expect([errorText(answered, (key) => catalogue[key], english.resolved), answered.textCode]).toEqual([catalogue["error.other"], "other"]);
});

it("w5: who was late is told what was decided, and by whom", () => {
  const late = (details: JsonObject) =>
    errorText(new CountersignError("approval_already_resolved", "s_1 is already resolved", { details }), (key, params) => translate(en, key, params), english.resolved);
  const reject = { type: "reject", message: "No" };
  expect(late({ resolution: "decided", decisions: [reject, reject], by: "bob\u202e" })).toBe("This request is already resolved: Rejected by bob⟨U+202E⟩.");
  expect(late({ resolution: "decided", decisions: [{ type: "approve" }, reject] })).toBe("This request is already resolved: Approved, Rejected.");
  expect(late({ resolution: "decided", answers: { "How?": "So" }, by: "bob" })).toBe("This request is already resolved: Answered by bob, “So”.");
  expect(late({ resolution: "timeout" })).toBe("This request is already resolved: Nobody decided in time.");
});

describe("language", () => {
  it("is the chosen one, else the browser's first that we have, else English", () => {
    expect(pickLanguage("vi", ["zh-CN"])).toBe("vi");
    expect(pickLanguage(null, ["fr-FR", "zh-TW", "en"])).toBe("zh");
    expect(pickLanguage("constructor", ["fr"])).toBe("en");
  });

  it("fills in parameters as text", () => {
    expect(translate(en, "resolved.by", { name: "{x} $& alice" })).toBe("by {x} $& alice");
  });
});
