import { useState } from "react";
import type { Answers, ApprovalView, CountersignError, Decision } from "@countersign/client";
import { client } from "../../state/connection.js";
import { asRefusal } from "../../state/sessions.js";

export type Reply = { decisions: Decision[]; user_edit_content?: string } | { answers: Answers };

export interface Submission {
  state: "no" | "sending" | "stored";
  error: CountersignError | undefined;
  clearError: () => void;
  /** Resolves to whether the reply is stored. */
  submit: (reply: Reply) => Promise<boolean>;
}

/** Sending a person's reply to a request, and what came of it. */
export function useSubmit({ sessionId, approvalKey }: ApprovalView): Submission {
  const [state, setState] = useState<Submission["state"]>("no");
  const [error, setError] = useState<CountersignError>();
  const submit = async (reply: Reply) => {
    setState("sending");
    setError(undefined);
    try {
      await client.sendApproval({ session_id: sessionId, approval_key: approvalKey, ...reply });
      setState("stored");
      return true;
    } catch (e) {
      setError(asRefusal(e));
      setState("no");
      return false;
    }
  };
  return { state, error, clearError: () => setError(undefined), submit };
}
