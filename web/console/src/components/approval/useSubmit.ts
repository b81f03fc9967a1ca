import { useState } from "react";
import { progress, type Answers, type ApprovalView, type CountersignError, type Decision, type JsonValue } from "@countersign/client";
import { useTabState } from "../../lib/useTabState.js";
import { client } from "../../state/connection.js";
import { asRefusal } from "../../state/sessions.js";

export type Reply = { decisions: Decision[]; user_edit_content?: string } | { answers: Answers } | { resume: JsonValue };

export interface Submission {
  state: "no" | "sending" | "stored";
  error: CountersignError | undefined;
  /** This tab has approved what more people must approve. */
  voted: boolean;
  clearError: () => void;
  /** Resolves to whether the reply is stored. */
  submit: (reply: Reply) => Promise<boolean>;
}

/** Sending a person's reply to a request, and what came of it. */
export function useSubmit(approval: ApprovalView, onSent?: () => void): Submission {
  const { approvalKey } = approval;
  const [voted, setVoted] = useTabState(`voted:${approvalKey}`, () => false);
  const [state, setState] = useState<Submission["state"]>("no");
  const [error, setError] = useState<CountersignError>();
  const submit = async (reply: Reply) => {
    setState("sending");
    setError(undefined);
    try {
      await client.reply(approval, reply);
      // One of several: it goes on waiting, and there is still something to do with it.
      const vote = progress(approval) && "decisions" in reply && reply.decisions.every((d) => d.type === "approve");
      setState(vote ? "no" : "stored");
      if (vote) setVoted(true);
      onSent?.();
      return true;
    } catch (e) {
      setError(asRefusal(e));
      setState("no");
      return false;
    }
  };
  return { state, error, voted, clearError: () => setError(undefined), submit };
}
