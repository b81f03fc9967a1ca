/** A request for a person: the card of `@countersign/react`, with this page's frame around it, and its outcome. */
import { useEffect, useLayoutEffect, useRef } from "react";
import { asksForValue, type ApprovalView } from "@countersign/client";
import { ApprovalCard as Card, type CardComponents, type CardReply, type ResolvedProps } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { announce } from "../../lib/announce.js";
import { client } from "../../state/connection.js";
import { sessions } from "../../state/sessions.js";
import { ResolvedInterrupt } from "../interrupt/ResolvedInterrupt.js";
import { ResolvedQuestion } from "../question/ResolvedQuestion.js";
import { AskedFrame } from "./AskedFrame.js";
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

const components: CardComponents = { Frame: AskedFrame, Resolved: Over, Decisions: DecisionCard };

function Over({ approval, replying, children }: ResolvedProps) {
  const question = approval.kind === "question";
  return (
    <>
      <Unsent approval={approval} replying={replying} />
      {question ? (
        <ResolvedQuestion approval={approval}>{children}</ResolvedQuestion>
      ) : asksForValue(approval) ? (
        <ResolvedInterrupt approval={approval} />
      ) : (
        <ResolvedLine approval={approval} />
      )}
    </>
  );
}

/**
 * The callbacks for stored replies, by the request's key: while a reply is on its way its card may be remounted, and
 * the unmounted one no longer knows the page.
 */
const onStored = new Map<string, () => void>();

export function ApprovalCard({ approval, onSent }: Props) {
  const { t } = useI18n();
  const box = useRef<HTMLDivElement>(null);
  const hadFocus = useRef(false);
  const resolved = approval.resolution !== undefined;
  const wasWaiting = useRef(!resolved);
  const send = async (one: ApprovalView, reply: CardReply) => {
    await client.reply(one, reply);
    (onStored.get(one.approvalKey) ?? onSent)?.();
  };
  const { approvalKey } = approval;
  useLayoutEffect(() => {
    if (!onSent) return;
    onStored.set(approvalKey, onSent);
    return () => void onStored.delete(approvalKey);
  }, [approvalKey, onSent]);

  // A resolved card is replaced: the focus must not be lost with its buttons.
  // The decisions themselves follow a moment after the news that it is resolved.
  const settled = resolved && (approval.resolution !== "decided" || !!approval.decisions || approval.resume !== undefined || approval.kind === "question");
  useEffect(() => {
    if (!settled || !wasWaiting.current) return;
    wasWaiting.current = false;
    announce(t("card.announceResolved", { tool: subjectOf(approval, t), result: summarize(approval, t, sessions.get(approval.sessionId).view.approvals).text }));
    // If the person has moved on to something else, the focus stays there.
    const now = document.activeElement;
    const elsewhere = now && now !== document.body && !box.current?.contains(now);
    if (!hadFocus.current || elsewhere) return;
    const target = box.current?.querySelector<HTMLElement>("button, [tabindex]");
    target?.focus();
    // The group around it may have closed in the same moment.
    if (document.activeElement !== target) box.current?.closest(".group")?.querySelector("button")?.focus();
  }, [settled, approval, t]);

  // The card is rendered once the request is complete, which may be some frames after its beginning.
  useEffect(() => takeFocus(approvalKey), [approvalKey, approval.complete]);

  return (
    <div
      ref={box}
      onFocus={() => (hadFocus.current = true)}
      onBlur={(e) => {
        // Removing the focused button blurs it with no new target; only a real move counts.
        if (e.relatedTarget && !box.current?.contains(e.relatedTarget)) hadFocus.current = false;
      }}
    >
      <Card approval={approval} onReply={send} components={components} />
    </div>
  );
}
