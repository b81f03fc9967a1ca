// @vitest-environment jsdom
import { createElement as h } from "react";
import { expect, test } from "vitest";
import Rendered from "../src/components/message/Rendered.js";
import { isDeep } from "../src/lib/deep.js";
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

test("x: a small text that would keep the page busy for minutes is shown as it was written", async () => {
  const n = 2000;
  const hostile = {
    quotes: ">".repeat(n) + "x",
    lists: "- ".repeat(n) + "x",
    numbers: "1. ".repeat(n) + "x",
    many: ("- ".repeat(12) + "x\n").repeat(n),
    mixed: "> - ".repeat(n) + "x",
    steps: Array.from({ length: 40 }, (_, i) => "  ".repeat(12 * i) + "- ".repeat(12) + "x").join("\n"),
    strong: "**a ".repeat(n) + " a**".repeat(n),
    strange: "(*".repeat(n) + "x" + "*)".repeat(n),
    stars: "*".repeat(n) + "a" + "*".repeat(n),
    lines: "> *a\n".repeat(n) + "> a*\n".repeat(n),
    struck: "~~a ".repeat(n) + " a~~".repeat(n),
    images: "![".repeat(n) + "a" + "](b)".repeat(n),
    // Ten kilobytes that are four million cells.
    table: "|a".repeat(1500) + "\n" + "|-".repeat(1500) + "\n" + "|x\n".repeat(1500),
    quoted: "> |" + "a|".repeat(1500) + "\n> |" + "-|".repeat(1500) + "\n" + "> |x\n".repeat(1500),
    brackets: "[".repeat(10 * n) + "x" + "]".repeat(10 * n),
    code: Array.from({ length: 600 }, (_, i) => "`".repeat(i + 1) + "a").join(" "),
    inner: "- x\n  - y\n    - z\n".repeat(4 * n),
    lazy: "> x\r" + "x\r".repeat(16 * n),
    each: "> x\n\n".repeat(4 * n),
    notes: Array.from({ length: 2 * n }, (_, i) => `x[^${i}]\n\n[^${i}]: y\n\n`).join(""),
    items: "- x\n".repeat(30 * n),
    paragraphs: "x\n\n".repeat(30 * n),
  };
  for (const [name, text] of Object.entries(hostile)) {
    const begun = performance.now();
    const { page } = await show(h(Rendered, { text }));
    expect(page.textContent, name).toBe(text);
    expect(performance.now() - begun, name).toBeLessThan(2_000);
  }
});

test("u1: what people and agents write is Markdown, however long", () => {
  const texts = [
    "A *word* and a **strong one** with `code`. ".repeat(30).concat("\n\n").repeat(200),
    Array.from({ length: 7 }, (_, i) => "    ".repeat(i) + "- level").join("\n"),
    "- - - - - - - - - - - - - - - - - - - -\n\n> > > quoted thrice",
    "- **a**: `*.ts`, *b*\n".repeat(3000),
    "```c\nint some_long_name = a * b[i] * snake_case_name;\n".concat("x_y_z = p * q;\n".repeat(3000), "```"),
    "| **a** | _b_ |\n| --- | --- |\n".concat("| **a** | _b_ |\n".repeat(300)),
    "A *word* and a **strong one**.\r\n\r\n".repeat(1000),
    ("| a ".repeat(20) + "|\n" + "|---".repeat(20) + "|\n" + "| x ".repeat(20).concat("|\n").repeat(100) + "\n").repeat(8),
    "- one\n  - two, with a [link](https://example.com) and `code`\n".repeat(1500),
    "See [this](https://example.com/a) and `that`. ".repeat(1000),
    "> A line of a long quote\n".repeat(1500),
    "It says so[^1].\n\n[^1]: There.\n\n".repeat(200),
    "```json\n" + '  "key": [1, 2],\n'.repeat(2500) + "```",
  ];
  expect(texts.map(isDeep)).toEqual(texts.map(() => false));
});
