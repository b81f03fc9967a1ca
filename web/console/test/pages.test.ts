// @vitest-environment jsdom
import { act, createElement as h, Fragment } from "react";
import { expect, test } from "vitest";
import { CountersignError } from "@countersign/client";
import { Refused } from "../src/components/Refusal.js";
import { usePages } from "../src/lib/usePages.js";
import { button, click, show } from "./page.js";

interface Asked {
  cursor: number | undefined;
  atLeast: number;
  answer: (rows: string[], next?: number) => Promise<void>;
  fail: () => Promise<void>;
}

/** A list whose pages the test gives. */
function reading() {
  const asked: Asked[] = [];
  const read = (cursor: number | undefined, atLeast: number) =>
    new Promise<{ rows: string[]; next: number | undefined }>((resolve, reject) =>
      asked.push({
        cursor,
        atLeast,
        answer: (rows, next) => act(async () => resolve({ rows, next })),
        fail: () => act(async () => reject(new CountersignError("unreachable", "Gone."))),
      }),
    );
  return { asked, read };
}

function List({ read, when = true }: { read: ReturnType<typeof reading>["read"]; when?: boolean }) {
  const { rows, more, error, retry } = usePages(read, when);
  return h(Fragment, null, h("p", null, rows?.join()), h(Refused, { error, onRetry: retry }), more && h("a", { onClick: more }));
}
const shown = (page: Element) => page.querySelector("p")?.textContent;
const more = (page: Element) => click(page.querySelector("a"));

test("u1: a page that is asked for twice is shown once", async () => {
  const { asked, read } = reading();
  const { page } = await show(h(List, { read }));
  await asked[0]!.answer(["a"], 1);
  await more(page);
  await more(page);
  for (const one of asked.slice(1)) await one.answer(["b"], 2);
  expect(shown(page)).toBe("a,b");
});

test("u1: a page that did not come is asked for again, and those before it stay", async () => {
  const { asked, read } = reading();
  const { page } = await show(h(List, { read }));
  await asked[0]!.answer(["a"], 1);
  await more(page);
  await asked[1]!.fail();
  expect(shown(page)).toBe("a");
  await click(button(page.querySelector("[role=alert]")!, "app.retry"));
  expect(asked[2]!.cursor).toBe(1);
  await asked[2]!.answer(["b"]);
  expect(shown(page)).toBe("a,b");
  expect(page.querySelector("[role=alert], a")).toBeNull();
});

test("u1: what comes late of another list is not shown", async () => {
  const [first, second] = [reading(), reading()];
  const { page, draw } = await show(h(List, { read: first.read }));
  await first.asked[0]!.answer(["a"], 1);
  await more(page);
  await draw(h(List, { read: second.read }));
  expect(shown(page)).toBe("");
  await first.asked[1]!.answer(["late"]);
  expect(shown(page)).toBe("");
  await second.asked[0]!.answer(["b"]);
  expect(shown(page)).toBe("b");
});

test("u1: a list that is read again, since the connection was lost, keeps its length", async () => {
  const { asked, read } = reading();
  const { page, draw } = await show(h(List, { read }));
  await asked[0]!.answer(["a"], 1);
  await more(page);
  await asked[1]!.answer(["b", "c"], 3);
  await draw(h(List, { read, when: false }));
  await draw(h(List, { read, when: true }));
  expect(asked.map(({ cursor, atLeast }) => [cursor, atLeast])).toEqual([[undefined, 0], [1, 0], [undefined, 3]]);
  await asked[2]!.answer(["new", "a", "b"], 2);
  expect(shown(page)).toBe("new,a,b");

  // At another list it begins with the first page.
  const other = reading();
  await draw(h(List, { read: other.read }));
  expect(other.asked[0]!.atLeast).toBe(0);
});
