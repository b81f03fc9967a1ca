// @vitest-environment jsdom
import { createElement as h } from "react";
import { expect, test } from "vitest";
import Rendered from "../src/components/message/Rendered.js";
import { show } from "./page.js";

test("u1: a footnote stands below the text, with nothing that leads to another page, needs a language or is there twice", async () => {
  const text = "The contract ends in May[^1], says Bob[^bob], as agreed[^1].\n\n## Next\n\n- [x] Call [him](https://example.com)\n\n[^1]: Clause 4.\n[^bob]: By mail.";
  const { page } = await show(h("div", null, h(Rendered, { text }), h(Rendered, { text })));
  const [first] = page.querySelectorAll("section");
  expect(first?.textContent?.trim().split(/\s*\n\s*/)).toEqual(["Clause 4.", "By mail."]);
  expect([...page.querySelectorAll("sup")].map((one) => one.textContent)).toEqual(["1", "2", "1", "1", "2", "1"]);
  expect([...page.querySelectorAll("h2")].map((one) => one.textContent)).toEqual(["Next", "Next"]);
  expect([...page.querySelectorAll("a")].map((one) => one.getAttribute("href"))).toEqual(["https://example.com", "https://example.com"]);
  expect([page.querySelectorAll("[id], [aria-describedby]").length, page.querySelectorAll("li.task-list-item").length]).toEqual([0, 2]);
});
