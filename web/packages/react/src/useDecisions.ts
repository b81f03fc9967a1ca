import { useCallback, useLayoutEffect, useRef, useState } from "react";
import { configOf, progress, type ApprovalView, type Decision, type DecisionType } from "@countersign/client";
import { fieldErrorText } from "./arguments/FormField.js";
import type { Problem } from "./arguments/Problems.js";
import { draftKey } from "./draftKey.js";
import { callDecision, emptyCall, shownArgs, type CallDraft, type CallsDraft } from "./drafts.js";
import { argumentOf, editedArgs, needsSight, refusedEdits, type FieldProblem } from "./forms/edits.js";
import { isLongText } from "./forms/shown.js";
import { useTexts } from "./labels.js";
import { useDraft } from "./useDraft.js";
import type { Replying } from "./useReply.js";

export interface DecisionsOptions {
  approval: ApprovalView;
  replying: Replying;
  /** The choices that this person may not make, as far as the page knows. */
  barred?: (choice: DecisionType) => boolean;
}

/**
 * Why a decision on a call cannot be sent: nothing is chosen, its edit cannot be read, it is long and was not read to
 * its end, or this person may not make it.
 */
export type Lack = "choice" | "edit" | "sight" | "barred";

/** The calls of a request, and a person's input for each. `C`: a custom page may keep more for each. */
export interface Deciding<C extends CallDraft = CallDraft> {
  calls: readonly C[];
  setCall: (index: number, next: C) => void;
  /** A person's own words to the agent; absent while they want to add none. */
  comment: string | undefined;
  setComment: (comment: string | undefined) => void;
  /** Whether everything that would run has been in view; otherwise it cannot be approved. */
  isSeen: (index: number) => boolean;
  onSeen: (index: number) => void;
  /** The decision on each call so far; `undefined` while there is no choice, or its edit cannot be read. */
  decisions: readonly (Decision | undefined)[];
  /** Why the decision on a call, as entered or as in `draft`, cannot be sent; `undefined` if it can. */
  lacks: (index: number, draft?: C) => Lack | undefined;
  /** The problems that the server found with the edit of a call when it was sent. */
  problemsOf: (index: number) => FieldProblem[];
  /** All these problems, in words: the field of one may not be on the page. */
  problems: Problem[];
  /**
   * Sends all decisions, as entered or as in `calls`, if no call lacks anything. Resolves to whether they are stored.
   */
  send: (calls?: readonly C[]) => Promise<boolean>;
}

const nothing = () => false;

/**
 * Deciding the calls of a request, which are sent together. The input, and what was seen, count only for the content
 * shown.
 */
export function useDecisions<C extends CallDraft = CallDraft>({ approval, replying, barred = nothing }: DecisionsOptions): Deciding<C> {
  const { t } = useTexts();
  const { actions } = approval;
  const key = draftKey(approval);
  const empty = (): CallsDraft<C> => ({ calls: actions.map(() => emptyCall as C) });
  const [draft, setDraft] = useDraft(key, empty);
  // Each of several changes in one event applies to the result of the one before.
  const newest = useRef(draft);
  useLayoutEffect(() => void (newest.current = draft));
  const change = (to: Partial<CallsDraft<C>>) => setDraft((newest.current = { ...newest.current, ...to }));
  // Not kept across a reload: a person who comes back looks again.
  const [seen, setSeen] = useState<{ key: string; calls: readonly number[] }>({ key, calls: [] });
  const onSeen = useCallback(
    (i: number) =>
      setSeen((before) => {
        const calls = before.key === key ? before.calls : [];
        return calls.includes(i) ? before : { key, calls: [...calls, i] };
      }),
    [key],
  );
  const isSeen = (i: number) => (seen.key === key && seen.calls.includes(i)) || !isLongText(shownArgs(actions[i]!));

  const callsOf = (entered: CallsDraft<C>) => actions.map((_, i) => entered.calls[i] ?? (emptyCall as C));
  const calls = callsOf(draft);
  const decided = (call: C, i: number) => callDecision(actions[i]!, configOf(approval, i), call);
  const lacks = (i: number, call = calls[i]!): Lack | undefined => {
    const decision = decided(call, i);
    if (!decision) return call.choice === "edit" ? "edit" : "choice";
    if (barred(decision.type)) return "barred";
    return needsSight(decision.type) && !isSeen(i) ? "sight" : undefined;
  };
  const setCall = (i: number, next: C) => {
    // The problems that the server found are about the arguments as they were sent.
    if (replying.error?.code === "invalid_edit" && next.edit !== calls[i]?.edit) replying.clearError();
    change({ calls: callsOf(newest.current).map((call, j) => (j === i ? next : call)) });
  };
  const send = async (now: readonly C[] = callsOf(newest.current)) => {
    if (replying.state !== "idle" || now.some((call, i) => lacks(i, call) !== undefined)) return false;
    const words = newest.current.comment?.trim();
    const decisions = now.flatMap((call, i) => decided(call, i) ?? []);
    if (!(await replying.send({ decisions, ...(words ? { user_edit_content: words } : {}) }))) return false;
    // Once it is stored, nothing is left to restore; if more people must approve, the card starts over.
    setDraft(progress(approval) ? empty() : undefined);
    return true;
  };
  const refused = refusedEdits(replying.error, approval, (i) => actions[i] && editedArgs(actions[i], configOf(approval, i), calls[i]?.edit));
  return {
    calls,
    setCall,
    comment: draft.comment,
    setComment: (comment) => change({ comment }),
    isSeen,
    onSeen,
    decisions: calls.map(decided),
    lacks,
    problemsOf: (i) => refused.filter(({ index = i }) => index === i),
    problems: refused.map((p) => ({ what: argumentOf(p.pointer), message: p.message, own: p.error && fieldErrorText(p.error, t) })),
    send,
  };
}
