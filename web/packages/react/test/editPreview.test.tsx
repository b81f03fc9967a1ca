// @vitest-environment jsdom
import { act } from "react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { CountersignError, CountersignHttp, stringifyJson, type EditPreview } from "@countersign/client";
import { ApprovalCard, CountersignProvider } from "../src/index.js";
import { button, connected, click, labelled, request, show, write } from "./page.js";

/** What the server was asked, each to be answered by the test. */
interface Asked {
  edit: unknown;
  signal: AbortSignal;
  answer: (preview: EditPreview) => Promise<void>;
  fail: (error: CountersignError) => Promise<void>;
}

function server() {
  const asked: Asked[] = [];
  const http = new CountersignHttp();
  vi.spyOn(http, "previewEdit").mockImplementation((_key, edit, signal) =>
    new Promise((resolve, reject) =>
      asked.push({
        edit,
        signal: signal!,
        answer: (preview) => act(async () => resolve(preview)),
        fail: (error) => act(async () => reject(error)),
      }),
    ),
  );
  return { http, asked };
}

const would = (text: string): EditPreview => ({ outcome: "approves", preview: { kind: "text", text, left_out: 0 } });
const pause = (ms: number) => act(async () => vi.advanceTimersByTime(ms));
const previews = (page: Element) => [...page.querySelectorAll('[data-part="preview"] pre')].map((one) => one.textContent?.trimEnd());
const leadsTo = (page: Element) => page.querySelector('[data-part="leads-to"]')?.textContent;

const [action] = request().actions;
const approval = request({ actions: [{ ...action!, preview: { kind: "text", text: "as proposed", left_out: 0 } }] });

async function editing(text: string) {
  const { http, asked } = server();
  const { page } = await show(<ApprovalCard approval={approval} />, { http });
  await click(labelled(page, "Edit"));
  const field = labelled(page, "Arguments as JSON");
  await write(field, text);
  return { page, asked, field };
}

describe("an edit while it is made", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
  afterEach(() => void vi.useRealTimers());

  it("s12 is asked about once nothing is typed, as what was shown, and only then", async () => {
    const { page, asked, field } = await editing('{"n": 2}');
    expect(previews(page)).toEqual([]);
    await pause(399);
    await write(field, '{"n": 9007199254740993}');
    await pause(399);
    expect(asked).toEqual([]);
    await pause(1);
    expect(stringifyJson(asked.map((one) => one.edit))).toBe(
      '[{"action":0,"edited_action":{"name":"pay","args":{"n":9007199254740993}},"digest":"d1"}]',
    );
    expect(leadsTo(page)).toBe("Checking the changed call…");
    await asked[0]!.answer(would("pays much"));
    expect([previews(page), leadsTo(page)]).toEqual([["pays much"], "The policy accepts these values."]);
  });

  it("s12 never shows what other arguments would do", async () => {
    const { page, asked, field } = await editing('{"n": 2}');
    await pause(400);
    await write(field, '{"n": 3}');
    expect(asked[0]!.signal.aborted).toBe(true);
    await asked[0]!.answer(would("pays 2"));
    expect(previews(page)).toEqual([]);
    await pause(400);
    await asked[1]!.answer(would("pays 3"));
    expect(previews(page)).toEqual(["pays 3"]);
    await write(field, '{"n": ');
    expect([previews(page), leadsTo(page)]).toEqual([[], ""]);
    // With the proposed arguments again, their preview is shown.
    await write(field, '{"n": 1}');
    expect(previews(page)).toEqual(["as proposed"]);
    await pause(400);
    expect(asked.length).toBe(2);
  });

  it("p1 says who would be asked, and why it would be refused", async () => {
    const { page, asked, field } = await editing('{"n": 2}');
    await pause(400);
    await asked[0]!.answer({ outcome: "asks", reviewConfig: { role: "legal" } });
    expect(leadsTo(page)).toBe("These values need approval: legal");
    await write(field, '{"n": 3}');
    await pause(400);
    await asked[1]!.answer({ outcome: "refused", error: new CountersignError("invalid_edit", "never that many") });
    expect(leadsTo(page)).toBe("These values would be refused.never that many");
    expect(page.querySelector('[data-part="leads-to"]')?.getAttribute("aria-live")).toBe("polite");
  });

  it("w5 is not asked about once it is decided", async () => {
    const { page, asked } = await editing('{"n": 2}');
    await click(button(page, "Send"));
    await pause(400);
    expect(asked).toEqual([]);
  });

  it("x what one person was told is not shown to another", async () => {
    const [alice, bob, client] = [server(), server(), connected()];
    const cardOf = ({ http }: typeof alice) => (
      <CountersignProvider client={client} http={http}>
        <ApprovalCard approval={approval} />
      </CountersignProvider>
    );
    const { page, draw } = await show(cardOf(alice));
    await click(labelled(page, "Edit"));
    await write(labelled(page, "Arguments as JSON"), '{"n": 2}');
    await pause(400);
    await alice.asked[0]!.answer(would("for alice"));
    expect(previews(page)).toEqual(["for alice"]);
    await draw(cardOf(bob));
    expect([previews(page), leadsTo(page)]).toEqual([[], "Checking the changed call…"]);
    await pause(400);
    await bob.asked[0]!.answer(would("for bob"));
    expect(previews(page)).toEqual(["for bob"]);
    client.close();
  });

  it("asks again where that has failed", async () => {
    const { page, asked } = await editing('{"n": 2}');
    await pause(400);
    await asked[0]!.fail(new CountersignError("too_busy", "later"));
    expect(leadsTo(page)).toBe("laterTry again");
    await click(button(page, "Try again"));
    await pause(400);
    await asked[1]!.answer(would("pays 2"));
    expect([previews(page), button(page, "Try again")]).toEqual([["pays 2"], undefined]);
  });
});
