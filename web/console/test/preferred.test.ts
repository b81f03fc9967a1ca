// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, expect, test } from "vitest";
import { I18nProvider, preferredLanguage, useI18n } from "../src/i18n/index.js";

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
afterEach(() => localStorage.clear());

test("a page begins in the language that it has loaded, whatever another tab has chosen since", async () => {
  localStorage.setItem("countersign:language", "vi");
  expect(preferredLanguage()).toBe("vi");
  const box = document.createElement("div");
  const Shown = () => useI18n().language;
  await act(async () => createRoot(box).render(h(I18nProvider, { first: "zh", children: h(Shown) })));
  expect(box.textContent).toBe("zh");
});
