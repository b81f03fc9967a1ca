/** Webhooks: the progress of each one, and the content of undelivered messages, from the audit log. */
import type { CountersignHttp, FailedMessage, Webhook } from "@countersign/client";
import type { MessageKey } from "../i18n/en.js";
import { tell, type Told } from "./audit.js";

/** How many messages are read at first, and with each step. */
export const PAGE = 20;
/** How many records are read at once to find a few. Each can be as large as a request with its arguments. */
const RECORDS = 50;

export interface Undelivered extends FailedMessage {
  /** The record that it reports; absent if this person may not read it. */
  about: Told | undefined;
}

/** The pages of the audit log that have these records, whose numbers rise. */
export function spans(numbers: readonly number[]): { cursor: number; limit: number }[] {
  const all: { cursor: number; limit: number }[] = [];
  for (const n of numbers) {
    const last = all.at(-1);
    if (last && n - last.cursor <= RECORDS) last.limit = n - last.cursor;
    else all.push({ cursor: n - 1, limit: 1 });
  }
  return all;
}

/** Reads undelivered messages. Records never change, so each is read once: `known` has those already read. */
export function reader(http: Pick<CountersignHttp, "failedMessages" | "audit">, webhook: string) {
  const known = new Map<number, Told | undefined>();
  return async (cursor: string | undefined, atLeast: number): Promise<{ rows: Undelivered[]; next: string | undefined }> => {
    const limit = Math.max(PAGE, atLeast);
    const { failed, next } = await http.failedMessages(webhook, { limit, ...(cursor === undefined ? {} : { cursor }) });
    const unknown = failed.map(({ n }) => n).filter((n) => !known.has(n));
    for (const { cursor: before, limit } of spans(unknown)) {
      const last = before + limit;
      // A page of long records ends early, and another one follows.
      for (let at = before; at < last; ) {
        const { records, next = last } = await http.audit({ cursor: at, limit: last - at });
        for (const record of records) if (unknown.includes(record.n)) known.set(record.n, tell(record));
        at = next;
      }
    }
    // A record that was not among them is not for this person to read, and is not requested again.
    for (const n of unknown) if (!known.has(n)) known.set(n, undefined);
    return { rows: failed.map((message) => ({ ...message, about: known.get(message.n) })), next };
  };
}

/** Its position, relative to the newest record that this person may read. */
export function positionOf({ cursor }: Webhook, newest: number | undefined): { key: MessageKey; params: Record<string, number> } {
  if (cursor === undefined) return { key: "webhooks.cursorNone", params: {} };
  if (newest !== undefined && newest > cursor) return { key: "webhooks.cursorOf", params: { n: cursor, newest } };
  return { key: "webhooks.cursorAt", params: { n: cursor } };
}

/** When a message is attempted next. */
export function nextOf({ next_at }: FailedMessage, isGone: boolean, now: number): MessageKey {
  if (next_at === undefined) return "webhooks.next.never";
  if (isGone) return "webhooks.next.start";
  return Date.parse(next_at) <= now ? "webhooks.next.now" : "webhooks.next.later";
}

/** How many messages did not arrive. */
export const undelivered = ({ waiting, dead }: Webhook): number => waiting + dead;

/** When this changes, its undelivered messages may have changed too. */
export const stateOf = (webhook: Webhook): string =>
  [webhook.status, webhook.waiting, webhook.dead, webhook.last_failed?.n, webhook.last_failed?.tried_at].join(" ");
