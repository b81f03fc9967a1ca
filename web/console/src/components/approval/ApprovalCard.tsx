/** A request for a person: the card to decide or answer it on, and once it is resolved what became of it. */
import { useEffect, useLayoutEffect, useRef } from "react";
import { asksForValue, type ApprovalView } from "@countersign/client";
import { useReply } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { announce } from "../../lib/announce.js";
import { client } from "../../state/connection.js";
import { sessions } from "../../state/sessions.js";
import { InterruptCard } from "../interrupt/InterruptCard.js";
import { ResolvedInterrupt } from "../interrupt/ResolvedInterrupt.js";
import { QuestionCard } from "../question/QuestionCard.js";
import { ResolvedQuestion } from "../question/ResolvedQuestion.js";
import { DecisionCard } from "./DecisionCard.js";
import { takeFocus } from "./focus.js";
import { ResolvedLine, summarize } from "./ResolvedLine.js";
import { subjectOf } from "./title.js";
import { Unsent } from "./Unsent.js";

interface Props {
  approval: ApprovalView;
  /** A reply of this tab is stored. */
  onSent?: () => void;
}

/**
 * What to do once a reply is stored, by the request's key: while it is on its way its card may be drawn anew, and the place where it was
 * drawn before knows nothing of the page any more.
 */
const onStored = new Map<string, () => void>();

export function ApprovalCard({ approval, onSent }: Props) {
  const { t } = useI18n();
  const box = useRef<HTMLDivElement>(null);
  const hadFocus = useRef(false);
  const resolved = approval.resolution !== undefined;
  const wasWaiting = useRef(!resolved);
  const submission = useReply(approval, async (one, reply) => {
    await client.reply(one, reply);
    (onStored.get(one.approvalKey) ?? onSent)?.();
  });
  const { approvalKey } = approval;
  useLayoutEffect(() => {
    if (!onSent) return;
    onStored.set(approvalKey, onSent);
    return () => void onStored.delete(approvalKey);
  }, [approvalKey, onSent]);
  const question = approval.kind === "question";
  const interrupt = asksForValue(approval);

  // A resolved card is replaced: the focus must not fall out of the page with its buttons.
  // The decisions themselves follow a moment after the news that it is resolved.
  const settled = resolved && (approval.resolution !== "decided" || !!approval.decisions || approval.resume !== undefined || question);
  useEffect(() => {
    if (!settled || !wasWaiting.current) return;
    wasWaiting.current = false;
    announce(t("card.announceResolved", { tool: subjectOf(approval), result: summarize(approval, t, sessions.get(approval.sessionId).view.approvals).text }));
    // Who has gone on to something else stays there.
    const now = document.activeElement;
    const elsewhere = now && now !== document.body && !box.current?.contains(now);
    if (!hadFocus.current || elsewhere) return;
    const target = box.current?.querySelector<HTMLElement>("button, [tabindex]");
    target?.focus();
    // The group around it may have closed in the same moment.
    if (document.activeElement !== target) box.current?.closest(".group")?.querySelector("button")?.focus();
  }, [settled, approval, t]);

  // The card is drawn once all of the request has come, which may be some frames after its beginning.
  useEffect(() => takeFocus(approvalKey), [approvalKey, approval.complete]);

  const Waiting = question ? QuestionCard : interrupt ? InterruptCard : DecisionCard;
  const Resolved = question ? ResolvedQuestion : interrupt ? ResolvedInterrupt : ResolvedLine;
  return (
    <div
      ref={box}
      onFocus={() => (hadFocus.current = true)}
      onBlur={(e) => {
        // Removing the focused button blurs it with no new target; only a real move counts.
        if (e.relatedTarget && !box.current?.contains(e.relatedTarget)) hadFocus.current = false;
      }}
    >
      {resolved && <Unsent approval={approval} submission={submission} />}
      {resolved ? (
        <Resolved approval={approval} />
      ) : (
        // What was seen to its end is what is shown, and nothing else that comes under the same key.
        approval.complete && <Waiting key={approval.digest ?? ""} approval={approval} submission={submission} />
      )}
    </div>
  );
}
