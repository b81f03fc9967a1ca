import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { STATUSES } from "@countersign/client";
import { catalogues } from "../src/i18n/all.js";
import { translate, type Translate } from "../src/i18n/index.js";
import { statusText } from "../src/lib/status.js";

const schema = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../../docs/wire.schema.json"), "utf8"),
) as { $defs: { Status: { anyOf: [{ enum: string[] }] } } };

describe("w2: what a session is doing", () => {
  test("the client knows exactly the statuses that the server can send", () => {
    expect([...STATUSES]).toEqual(schema.$defs.Status.anyOf[0].enum);
  });

  test.each(Object.entries(catalogues))("each has its word in %s", (_, catalogue) => {
    const t: Translate = (key, params) => translate(catalogue, key, params);
    const words = schema.$defs.Status.anyOf[0].enum.map((one) => statusText(one, t));
    expect(words).toEqual(schema.$defs.Status.anyOf[0].enum.map((one) => catalogue[`status.${one}` as keyof typeof catalogue]));
    expect(new Set(words).size).toBe(STATUSES.length);
    expect(words).not.toContain(undefined);
  });

  test("one of a newer server is shown as it is, and its invisible characters are shown too", () => {
    const t: Translate = (key, params) => translate(catalogues.en, key, params);
    expect(statusText("paused", t)).toBe("paused");
    expect(statusText("a\u202eb", t)).toBe("a⟨U+202E⟩b");
    expect(statusText("constructor", t)).toBe("constructor");
  });
});

test("a key that is in no catalogue does not throw", () => {
  for (const key of ["status.paused", "toString", ""]) expect(translate(catalogues.zh, key as "app.close")).toBe(key);
});
