import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { emptySession, fold, foldAll, historyOf, parseJson, withEarlier, type HistoryMessage, type SessionEvent } from "../src/index.js";

interface Vector {
  session_id: string;
  events: SessionEvent[];
  history: HistoryMessage[];
}

/** Recorded sessions of all kinds: their events, and the history that the server's own fold makes of them. */
const vectors = readFileSync(new URL("../../../../tests/formats/wire.jsonl", import.meta.url), "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => parseJson(line) as unknown as Vector);

const run = ({ session_id, events }: Vector) => events.reduce(fold, emptySession(session_id));

/** The events sent again after a connection that broke after `cut` events: a block that had begun starts over. */
function rest(events: SessionEvent[], cut: number): SessionEvent[] {
  const began = events.slice(0, cut).findLastIndex((event) => event.type === "content_block_start");
  const open = began >= 0 && !events.slice(began, cut).some((event) => event.type === "content_block_stop");
  return events.slice(open ? began : cut);
}

/** Where turns begin that follow one which is over. */
function turns(events: SessionEvent[]): number[] {
  let over = false;
  return events.flatMap((event, at) => {
    const begins = over && event.type === "message_start" && event.role === "user";
    if (event.type === "run_status") over = event.status === "completed" || event.status === "cancelled";
    return begins ? [at] : [];
  });
}

describe("w2: the fold, by the vectors of the server's", () => {
  it("makes the history that the server makes", () => {
    expect(vectors.length).toBeGreaterThan(80);
    for (const vector of vectors) expect(historyOf(run(vector)), vector.session_id).toEqual(vector.history);
  });

  // Thousands of folds are made and compared.
  it("makes the same of all events at once, and of those that come after a connection broke anywhere", { timeout: 240_000 }, () => {
    for (const vector of vectors) {
      const view = run(vector);
      expect(foldAll(emptySession(vector.session_id), vector.events), vector.session_id).toEqual(view);
      let before = emptySession(vector.session_id);
      for (let cut = 0; cut <= vector.events.length; cut++) {
        const again = foldAll(before, rest(vector.events, cut));
        expect(again, `${vector.session_id} cut at ${cut}`).toEqual(view);
        const next = vector.events[cut];
        if (next) before = fold(before, next);
      }
    }
  });

  it("makes the same of the last turns, once those before are put before them", () => {
    let cuts = 0;
    for (const { session_id, events } of vectors) {
      const view = foldAll(emptySession(session_id), events);
      const of = (from: number, to?: number) => foldAll(emptySession(session_id), events.slice(from, to));
      const places = turns(events);
      for (const [n, cut] of places.entries()) {
        cuts++;
        const end = of(cut);
        expect(end.firstSeq).toBeGreaterThan(1);
        expect(withEarlier(end, of(0, cut)), `${session_id} at ${cut}`).toEqual(view);
        // In parts, too; and what does not end where the view begins is left out.
        const middle = places[n - 1] ?? 0;
        if (middle > 0) expect(withEarlier(withEarlier(end, of(middle, cut)), of(0, middle))).toEqual(view);
        expect(withEarlier(end, of(0, cut - 1))).toBe(end);
        expect(withEarlier(view, of(0, cut))).toBe(view);
      }
    }
    expect(cuts).toBeGreaterThan(10);
  });

  it("knows every kind of event and of block in them", () => {
    const types = new Set(vectors.flatMap(({ events }) => events.map((event) => event.type)));
    expect([...types].sort()).toEqual([
      "approval_resolved", "approval_updated", "content_block_delta", "content_block_start", "content_block_stop",
      "content_replaced", "group_end", "group_start", "message_start", "message_stop", "run_status",
    ]);
    const blocks = vectors.flatMap((vector) => run(vector).messages.flatMap((message) => message.blocks));
    expect(blocks.filter((block) => block.type === "unknown")).toEqual([]);
  });
});
