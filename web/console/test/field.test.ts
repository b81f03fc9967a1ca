// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { createRoot } from "react-dom/client";
import { expect, test } from "vitest";
import { FormField } from "../src/components/approval/FormField.js";
import { I18nProvider } from "../src/i18n/index.js";

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

test("the name of an argument is shown with what misleads in it", async () => {
  const box = document.createElement("div");
  const field = { name: "p\u0430y\u202e", kind: "string" as const, required: false };
  const known: ReadonlySet<string> = new Set();
  const page = h(FormField, { id: "f", field, place: "f", draft: "", errors: {}, problems: [], known, onDraft: () => {} });
  await act(async () => createRoot(box).render(h(I18nProvider, { first: "en", children: page })));
  expect(box.querySelector("label")?.textContent).toBe("p⟨U+0430⟩y⟨U+202E⟩");
});
