/** Short ways to write down a session's events. */
import { emptySession, fold, type SessionEvent, type SessionView } from "../src/index.js";

export const S = "s1";
export type Loose = { type: string } & Record<string, unknown>;

/** Number the events as the server does: everything but deltas. */
export function numbered(events: Loose[]): SessionEvent[] {
  let seq = 0;
  return events.map((e) => {
    const base = { ...e, session_id: S };
    return (e.type === "content_block_delta" ? base : { ...base, seq: ++seq }) as unknown as SessionEvent;
  });
}

export const start = (index: number, content_block: object, message_id = "m1"): Loose => ({
  type: "content_block_start",
  message_id,
  index,
  content_block,
});
export const delta = (index: number, d: object, message_id = "m1"): Loose => ({
  type: "content_block_delta",
  message_id,
  index,
  delta: d,
});
export const stop = (index: number, message_id = "m1"): Loose => ({ type: "content_block_stop", message_id, index });

export const run = (events: SessionEvent[], from: SessionView = emptySession(S)) => events.reduce(fold, from);

/**
 * The events sent again after a connection that broke after the first `cut` events: those with a higher `seq`, and
 * inside a block first its start once more.
 */
export function rest(events: SessionEvent[], cut: number): SessionEvent[] {
  const lastSeq = run(events.slice(0, cut)).lastSeq;
  const lastStart = events.slice(0, cut).findLastIndex((e) => e.type === "content_block_start");
  const inside = lastStart >= 0 && !events.slice(lastStart, cut).some((e) => e.type === "content_block_stop");
  const from = inside ? lastStart : events.findIndex((e) => "seq" in e && e.seq > lastSeq);
  return from < 0 ? [] : events.slice(from);
}
