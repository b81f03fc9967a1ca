/** Replies to requests on their way to the server: each request has at most one, whichever part of a page sends it. */
import { CountersignError, progress, type ApprovalView, type CountersignClient } from "@countersign/client";
import { draftKey } from "./draftKey.js";
import { isLate } from "./ended.js";
import { lateOf } from "./late.js";
import { settlingOf } from "./settling.js";
import { keepDraft } from "./useDraft.js";
import { votedKey } from "./votes.js";

/** A person's reply to a request: decisions, answers, or the value that a graph asks for. */
export type CardReply = Parameters<CountersignClient["reply"]>[1];

/** How a card sends a reply; the default is the connection. */
export type OnReply = (approval: ApprovalView, reply: CardReply) => Promise<unknown>;

/** The outcome of a reply. */
export interface Outcome {
  error?: CountersignError;
  /** Whether it is stored as one approval of several. */
  vote: boolean;
}

interface Replies {
  /**
   * Those on their way, by request: while the connection is lost that takes long, and a card that is mounted meanwhile
   * must not offer the choice again.
   */
  onTheirWay: Map<string, Promise<Outcome>>;
  /** Refusals that no card has shown, by `draftKey`: the request's next card does. */
  untold: Map<string, CountersignError>;
}

/** How many refusals are kept. */
const MOST = 20;

const known = new WeakMap<CountersignClient, Replies>();

export function repliesOf(client: CountersignClient): Replies {
  let replies = known.get(client);
  if (!replies) known.set(client, (replies = { onTheirWay: new Map(), untold: new Map() }));
  return replies;
}

/** Sends a reply. The caller has seen that none is on its way. */
export function attempt(client: CountersignClient, approval: ApprovalView, reply: CardReply, onReply?: OnReply): Promise<Outcome> {
  const { onTheirWay, untold } = repliesOf(client);
  const key = draftKey(approval);
  const settled = async (): Promise<Outcome> => {
    try {
      await (onReply ? onReply(approval, reply) : client.reply(approval, reply));
      const vote = progress(approval) !== undefined && (reply.decisions?.every((d) => d.type === "approve") ?? false);
      if (vote) keepDraft(votedKey(approval), true);
      settlingOf(client).settle();
      return { vote };
    } catch (reason) {
      const error = CountersignError.of(reason);
      // Its sender may have left by now, and the request may be gone.
      if (isLate(error)) {
        lateOf(client).add(approval, error);
        settlingOf(client).settle();
      } else untold.set(key, error);
      for (const [oldest] of [...untold].slice(0, -MOST)) untold.delete(oldest);
      return { error, vote: false };
    }
  };
  untold.delete(key);
  // Never before it is set, however soon it ends.
  const outcome = settled().finally(() => onTheirWay.delete(approval.approvalKey));
  onTheirWay.set(approval.approvalKey, outcome);
  return outcome;
}

/**
 * Sends a reply to a request from elsewhere than its card, such as one decision on many requests. It waits for a reply
 * that is on its way already. Until it is stored, a card that is mounted for the request shows that it is being sent, and
 * the request's next card shows why it was refused.
 *
 * @throws {CountersignError} if it is refused, or cannot be sent
 */
export async function sendReply(client: CountersignClient, approval: ApprovalView, reply: CardReply): Promise<void> {
  const { onTheirWay } = repliesOf(client);
  for (let before = onTheirWay.get(approval.approvalKey); before; before = onTheirWay.get(approval.approvalKey)) await before;
  const { error } = await attempt(client, approval, reply);
  if (error) throw error;
}
