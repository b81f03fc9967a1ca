import { useEffect, useRef, useState } from "react";
import { CountersignError, progress, type ApprovalView, type CountersignClient } from "@countersign/client";
import { useCountersign } from "./context.js";
import { draftKey } from "./draftKey.js";
import { isLate } from "./ended.js";
import { lateOf, useLate } from "./late.js";
import { useDraft } from "./useDraft.js";
import { votedKey } from "./votes.js";

/** A person's reply to a request: decisions, answers, or the value that a graph asks for. */
export type CardReply = Parameters<CountersignClient["reply"]>[1];

/** How a card sends a reply; the default is the connection. */
export type OnReply = (approval: ApprovalView, reply: CardReply) => Promise<unknown>;

export interface Replying {
  state: "idle" | "sending" | "sent";
  /** Why the newest reply was refused; the input stays. A reply that came too late is reported until `clearError`. */
  error: CountersignError | undefined;
  /** Whether this tab has approved, and more people must. */
  voted: boolean;
  clearError: () => void;
  /** Resolves to whether the reply is stored. */
  send: (reply: CardReply) => Promise<boolean>;
}

/** The outcome of a reply. */
interface Outcome {
  error?: CountersignError;
  /** Whether it is stored as one approval of several. */
  vote: boolean;
}

/**
 * The replies that are on their way, by request: while the connection is lost that takes long, and a card that is
 * remounted meanwhile must not offer the choice again.
 */
const onTheirWay = new WeakMap<CountersignClient, Map<string, Promise<Outcome>>>();

/** The refusals that came while their card was not mounted, by `draftKey`: the next card shows them. */
const untold = new WeakMap<CountersignClient, Map<string, CountersignError>>();

/** How many are kept. */
const MOST = 20;

function of<T>(all: WeakMap<CountersignClient, Map<string, T>>, client: CountersignClient): Map<string, T> {
  let found = all.get(client);
  if (!found) all.set(client, (found = new Map()));
  return found;
}

/** Sends a person's reply to a request, one at a time, and reports its outcome. */
export function useReply(approval: ApprovalView, onReply?: OnReply): Replying {
  const { client } = useCountersign();
  const { approvalKey, digest } = approval;
  const key = draftKey(approval);
  const [replies, refusals] = [of(onTheirWay, client), of(untold, client)];
  const [voted, setVoted] = useDraft(votedKey(approval), () => false);
  const [earlier] = useState(() => replies.get(approvalKey));
  const [now, setNow] = useState<{ state: Replying["state"]; digest?: string | undefined }>({ state: earlier ? "sending" : "idle" });
  const [refused, setRefused] = useState<CountersignError>();
  const late = useLate(client).get(key);
  const drawn = useRef(false);
  useEffect(() => {
    drawn.current = true;
    return () => void (drawn.current = false);
  }, []);
  useEffect(() => {
    const before = refusals.get(key);
    if (before && refusals.delete(key)) setRefused(before);
  }, [refusals, key]);
  const follow = async (outcome: Promise<Outcome>) => {
    setNow({ state: "sending" });
    setRefused(undefined);
    const { error, vote } = await outcome;
    // After one of several approvals the request stays pending, and there is still something to do with it.
    setNow(error || vote ? { state: "idle" } : { state: "sent", digest });
    const refusal = isLate(error) ? undefined : error;
    setRefused(refusal);
    // If several cards follow it, the newest is asked last.
    refusals.delete(key);
    if (refusal && !drawn.current) refusals.set(key, refusal);
    for (const [oldest] of [...refusals].slice(0, -MOST)) refusals.delete(oldest);
    if (vote) setVoted(true);
    return !error;
  };
  useEffect(() => {
    if (earlier) void follow(earlier);
    // Only a card that has just been mounted finds one.
  }, [earlier]);
  const attempt = async (reply: CardReply): Promise<Outcome> => {
    try {
      await (onReply ? onReply(approval, reply) : client.reply(approval, reply));
      return { vote: progress(approval) !== undefined && (reply.decisions?.every((d) => d.type === "approve") ?? false) };
    } catch (reason) {
      const error = CountersignError.of(reason);
      // The card may be gone by now, with the request.
      if (isLate(error)) lateOf(client).add(approval, error);
      return { error, vote: false };
    } finally {
      replies.delete(approvalKey);
    }
  };
  const send = async (reply: CardReply) => {
    const before = replies.get(approvalKey);
    if (before) {
      void follow(before);
      return false;
    }
    const outcome = attempt(reply);
    replies.set(approvalKey, outcome);
    return follow(outcome);
  };
  // The stored reply is about the content shown then.
  const state = now.state === "sent" && now.digest !== digest ? "idle" : now.state;
  const clearError = () => {
    setRefused(undefined);
    lateOf(client).read(approval);
  };
  return { state, error: refused ?? (late?.read ? undefined : late?.error), voted, clearError, send };
}
