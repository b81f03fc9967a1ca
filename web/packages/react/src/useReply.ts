import { useRef, useState } from "react";
import { CountersignError, progress, type ApprovalView, type CountersignClient } from "@countersign/client";
import { useCountersign } from "./context.js";
import { forgetDrafts, useDraft } from "./useDraft.js";

/** Under what keys this tab keeps that it has approved. */
const VOTED = "voted:";

/** Forget what this tab has approved: somebody else uses it now. */
export const forgetVotes = (): void => forgetDrafts(VOTED);

/** A person's reply to a request: decisions, answers, or the value that a graph asks for. */
export type CardReply = Parameters<CountersignClient["reply"]>[1];

/** How a card sends a reply; by the connection where it is not said. */
export type OnReply = (approval: ApprovalView, reply: CardReply) => Promise<unknown>;

export interface CardProps {
  approval: ApprovalView;
  /** Sends the reply; by the connection of the provider if absent. */
  onReply?: OnReply | undefined;
  className?: string | undefined;
}

export interface Replying {
  state: "no" | "sending" | "sent";
  /** Why the newest reply was refused; what was entered stays. */
  error: CountersignError | undefined;
  /** This tab has approved what more people must approve. */
  voted: boolean;
  clearError: () => void;
  /** Resolves to whether the reply is stored. */
  send: (reply: CardReply) => Promise<boolean>;
}

/** Sends a person's reply to a request, one at a time, and says what came of it. */
export function useReply(approval: ApprovalView, onReply?: OnReply): Replying {
  const { client } = useCountersign();
  const [voted, setVoted] = useDraft(`${VOTED}${approval.approvalKey}`, () => false);
  const [state, setState] = useState<Replying["state"]>("no");
  const [error, setError] = useState<CountersignError>();
  const busy = useRef(false);
  const send = async (reply: CardReply) => {
    if (busy.current) return false;
    busy.current = true;
    setState("sending");
    setError(undefined);
    try {
      await (onReply ? onReply(approval, reply) : client.reply(approval, reply));
      // One of several: it goes on waiting, and there is still something to do with it.
      const vote = progress(approval) !== undefined && (reply.decisions?.every((d) => d.type === "approve") ?? false);
      setState(vote ? "no" : "sent");
      if (vote) setVoted(true);
      return true;
    } catch (reason) {
      setError(CountersignError.of(reason));
      setState("no");
      return false;
    } finally {
      busy.current = false;
    }
  };
  return { state, error, voted, clearError: () => setError(undefined), send };
}
