import { useEffect, useRef, useState } from "react";
import type { ApprovalView, CountersignClient, CountersignError } from "@countersign/client";
import { useCountersign } from "./context.js";
import { draftKey } from "./draftKey.js";
import { isLate } from "./ended.js";
import { lateOf, useLate } from "./late.js";
import { settlingOf, useSettles } from "./settling.js";
import { attempt, repliesOf, type CardReply, type OnReply, type Outcome } from "./replies.js";
import { keepDraft, readDraft, useDraft } from "./useDraft.js";
import { votedKey } from "./votes.js";

export interface Replying {
  state: "idle" | "sending" | "sent";
  /** Why the newest reply was refused; the input stays. A reply that came too late is reported until `clearError`. */
  error: CountersignError | undefined;
  /** Whether this tab has approved, and more people must. */
  voted: boolean;
  /** Whether the cards have just moved because of a reply of this tab: a press may be meant for what was there before. */
  settling: boolean;
  clearError: () => void;
  /** Resolves to whether the reply is stored. Sends nothing while the cards are `settling`. */
  send: (reply: CardReply) => Promise<boolean>;
}

export const useCardsSettle = (client: CountersignClient): boolean => useSettles(settlingOf(client));

/** Sends a person's reply to a request, one at a time, and reports its outcome. */
export function useReply(approval: ApprovalView, onReply?: OnReply): Replying {
  const { client } = useCountersign();
  const { approvalKey, digest } = approval;
  const key = draftKey(approval);
  const { onTheirWay, untold } = repliesOf(client);
  const [voted, setVoted] = useDraft(votedKey(approval), () => false);
  const [earlier] = useState(() => onTheirWay.get(approvalKey));
  const [now, setNow] = useState<{ state: Replying["state"]; digest?: string | undefined }>({ state: earlier ? "sending" : "idle" });
  const [refused, setRefused] = useState<CountersignError>();
  const late = useLate(client).get(key);
  const settling = useCardsSettle(client);
  const drawn = useRef(false);
  useEffect(() => {
    drawn.current = true;
    return () => void (drawn.current = false);
  }, []);
  useEffect(() => {
    const before = untold.get(key);
    if (before && untold.delete(key)) setRefused(before);
  }, [untold, key]);
  const follow = async (outcome: Promise<Outcome>) => {
    setNow({ state: "sending" });
    setRefused(undefined);
    const { error, vote } = await outcome;
    if (error) markSent(key, false);
    // After one of several approvals the request stays pending, and there is still something to do with it.
    setNow(error || vote ? { state: "idle" } : { state: "sent", digest });
    setRefused(isLate(error) ? undefined : error);
    if (drawn.current) untold.delete(key);
    if (vote) setVoted(true);
    return !error;
  };
  useEffect(() => {
    if (earlier) void follow(earlier);
    // Only a card that has just been mounted finds one.
  }, [earlier]);
  const send = async (reply: CardReply) => {
    if (settlingOf(client).get()) return false;
    const before = onTheirWay.get(approvalKey);
    if (before) {
      void follow(before);
      return false;
    }
    markSent(key, true);
    return follow(attempt(client, approval, reply, onReply));
  };
  // The stored reply is about the content shown then.
  const state = now.state === "sent" && now.digest !== digest ? "idle" : now.state;
  const clearError = () => {
    setRefused(undefined);
    lateOf(client).read(approval);
  };
  return { state, error: refused ?? (late?.read ? undefined : late?.error), voted, settling, clearError, send };
}

/** Notes in the draft, if there is one, that it is sent: after a reload nothing else says so. */
function markSent(key: string, sent: boolean): void {
  const draft = readDraft<object>(key);
  if (draft) keepDraft(key, { ...draft, sent });
}
