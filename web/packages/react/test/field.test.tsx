// @vitest-environment jsdom
import { useState } from "react";
import { expect, test } from "vitest";
import { FormField } from "../src/arguments/FormField.js";
import { Visible } from "../src/Visible.js";
import { show, write } from "./page.js";

test("the name of an argument is shown with what misleads in it", async () => {
  const field = { name: "p\u0430y\u202e", kind: "string" as const, required: false };
  const known: ReadonlySet<string> = new Set();
  const { page } = await show(<FormField id="f" field={field} place="f" draft="" errors={{}} problems={[]} known={known} onDraft={() => {}} />);
  expect(page.querySelector("label")?.textContent).toBe("p⟨U+0430⟩y⟨U+202E⟩");
});

test("a text full of hidden characters has a bounded number of marks, and none of them is hidden", async () => {
  const { page } = await show(<Visible text={"\u200b".repeat(5000)} />);
  expect(page.querySelectorAll("mark").length).toBe(4000);
  expect(page.textContent).toBe("⟨U+200B⟩".repeat(5000));
});

test.each(["\r\n", "\n"])("u2: a text keeps its line ends, whatever is edited: %j", async (end) => {
  let draft: unknown;
  function Edited() {
    const [text, setText] = useState(`@echo off${end}set A=1${end}`);
    draft = text;
    return <FormField id="f" field={{ name: "text", kind: "string", required: true }} place="text" draft={text} errors={{}} problems={[]} onDraft={(next) => setText(String(next))} />;
  }
  const { page } = await show(<Edited />);
  const field = page.querySelector("textarea");
  await write(field, "@echo off\nset A=9\n\n");
  expect(draft).toBe(`@echo off${end}set A=9${end}${end}`);
  // Also where nothing of the text is left meanwhile.
  for (const text of ["", "x\ny"]) await write(field, text);
  expect(draft).toBe(`x${end}y`);
});
