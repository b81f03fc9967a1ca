import { useRef, useState } from "react";
import type { ApprovalView } from "@countersign/client";
import { useCountersign } from "./context.js";
import type { CardReply } from "./useSession.js";

/** How a card sends a reply; by the connection where it is not said. */
export type OnReply = (approval: ApprovalView, reply: CardReply) => Promise<unknown>;

export interface CardProps {
  approval: ApprovalView;
  /** Sends the reply; by the connection of the provider if absent. */
  onReply?: OnReply;
  className?: string;
}

export interface Replying {
  state: "no" | "sending" | "sent";
  /** Why the newest reply was refused; what was entered stays. */
  error: unknown;
  send: (reply: CardReply) => Promise<void>;
}

/** Sends a person's reply to a request, one at a time. */
export function useReply(approval: ApprovalView, onReply: OnReply | undefined): Replying {
  const { client } = useCountersign();
  const [state, setState] = useState<Replying["state"]>("no");
  const [error, setError] = useState<unknown>();
  const busy = useRef(false);
  const send = async (reply: CardReply) => {
    if (busy.current) return;
    busy.current = true;
    setState("sending");
    setError(undefined);
    try {
      await (onReply ? onReply(approval, reply) : client.reply(approval, reply));
      // Where several must approve, it goes on waiting, and this card with it.
      setState("sent");
    } catch (reason) {
      setError(reason);
      setState("no");
    } finally {
      busy.current = false;
    }
  };
  return { state, error, send };
}
