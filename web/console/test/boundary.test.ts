// @vitest-environment jsdom
import { act, createElement as h, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Boundary } from "../src/components/Boundary.js";
import { catalogues } from "../src/i18n/all.js";
import { I18nProvider, type Language } from "../src/i18n/index.js";

const Bad = (): ReactNode => {
  throw new Error("no such word");
};

beforeEach(() => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  vi.spyOn(console, "error").mockImplementation(() => {});
});
afterEach(() => {
  vi.restoreAllMocks();
});

test.each(Object.keys(catalogues) as Language[])("one part that cannot be shown leaves the others, and says so in %s", async (language) => {
  const box = document.createElement("div");
  const root = createRoot(box, { onCaughtError: () => {} });
  const page = h("main", null, h(Boundary, null, h(Bad)), h(Boundary, null, h("p", null, "still here")));
  await act(async () => root.render(h(I18nProvider, { first: language, children: page })));
  const words = catalogues[language];
  expect(box.textContent).toContain("still here");
  expect(box.querySelector("[role=alert]")?.textContent).toContain(words["failure.text"]);
  expect(box.querySelector("button")?.textContent).toBe(words["failure.reload"]);
  await act(async () => root.unmount());
});
