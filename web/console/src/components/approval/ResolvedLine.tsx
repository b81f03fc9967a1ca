import { useState } from "react";
import { asksForValue, configOf, decisionFor, type ApprovalView, type Decision, type JsonValue, type SessionView } from "@countersign/client";
import { AgentSays, Arguments, Changes, PreviewText, useSessionState, Visible, visibleText } from "@countersign/react";
import { elicitationOf, elicitationResultOf, valueText } from "@countersign/react/forms";
import { useI18n, type Translate } from "../../i18n/index.js";
import { askedAgain } from "../../lib/decisions.js";
import { roleName } from "../../lib/people.js";
import { withdrawnText } from "../../lib/withdrawn.js";
import { Icon, type IconName } from "../Icon.js";
import { Updates } from "./Discussion.js";
import { toolNames } from "./title.js";
import { ResolvedWhen } from "./When.js";

type Tone = "good" | "bad" | "neutral";

/** A resolved request in one line; it opens to show the request and the decision. */
export function ResolvedLine({ approval }: { approval: ApprovalView }) {
  const { t } = useI18n();
  const { approvals } = useSessionState(approval.sessionId).view;
  const { text, tone, icon } = summarize(approval, t, approvals);
  const edited = approval.actions.some((_, i) => decisionFor(approval.decisions, i)?.type === "edit");
  // An edit shows what it changed at once, until the person says otherwise.
  const [chosen, setOpen] = useState<boolean>();
  const open = chosen ?? edited;
  return (
    <div className="resolved" data-tone={tone}>
      <button type="button" className="resolved-row" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span className="resolved-icon">
          <Icon name={icon} />
        </span>
        <span className="resolved-text">
          <strong>{text}</strong> <code>{toolNames(approval, t)}</code>
          {approval.by && <span className="muted"> {t("resolved.by", { name: visibleText(approval.by) })}</span>}
          <ResolvedWhen approval={approval} />
        </span>
        <span className="resolved-more">
          <span>{t("resolved.details")}</span>
          <Icon name="chevron" />
        </span>
      </button>
      {open && (
        <div className="resolved-body">
          {approval.actions.map((action, i) => {
            const decision = decisionFor(approval.decisions, i);
            return (
              <section key={i}>
                {approval.actions.length > 1 && (
                  <h4>
                    <code>{visibleText(action.name)}</code>{" "}
                    <span className="muted">{decision && decisionText(decision, approval, t, askedAgain(approval, i, approvals))}</span>
                  </h4>
                )}
                {decision?.type === "edit" ? (
                  <Changes
                    names={[action.name, decision.edited_action.name]}
                    before={action.args}
                    after={decision.edited_action.args}
                    display={action.display}
                    schema={configOf(approval, i).args_schema}
                  />
                ) : (
                  <>
                    <Arguments action={action} config={configOf(approval, i)} />
                    <PreviewText preview={action.preview} />
                  </>
                )}
                <AgentSays action={action} />
                {decision?.type === "reject" && decision.message && approval.actions.length > 1 && (
                  <p className="quote">
                    <Visible text={decision.message} />
                  </p>
                )}
              </section>
            );
          })}
          <Updates approval={approval} />
        </div>
      )}
    </div>
  );
}

interface Summary {
  text: string;
  tone: Tone;
  icon: IconName;
}

/** `approvals`: all requests of the session, which show whether people were asked again about an edit. */
export function summarize(approval: ApprovalView, t: Translate, approvals: SessionView["approvals"] = {}): Summary {
  if (approval.kind === "question") return summarizeQuestion(approval, t);
  if (asksForValue(approval) && !approval.escalatedTo) return summarizeInterrupt(approval, t);
  if (approval.escalatedTo) {
    const role = approval.escalatedTo.map((name) => roleName(name, t)).join(t("text.list"));
    return { text: t("people.escalated", { role }), tone: "neutral", icon: "clock" };
  }
  if (approval.resolution === "timeout") return { text: t("resolved.timeout"), tone: "bad", icon: "clock" };
  if (approval.resolution === "cancelled") return withdrawn(approval, t);
  const other = otherEnd(approval);
  if (other) return other;
  const outcomes = approval.actions.flatMap((_, i): Outcome[] => {
    const decision = decisionFor(approval.decisions, i);
    return decision ? [{ decision, again: askedAgain(approval, i, approvals) }] : [];
  });
  const decisions = outcomes.map(({ decision }) => decision);
  const [first] = decisions;
  if (!first) return { text: t("resolved.decided"), tone: "neutral", icon: "check" };
  const rejected = decisions.some((d) => d.type === "reject");
  const alike = outcomes.every((one) => kindOf(one) === kindOf(outcomes[0]!));
  if (!alike) return { text: mixedText(outcomes, approval, t), tone: "neutral", icon: "check" };
  const said = first.type === "reject" && decisions.length === 1 && first.message ? t("text.colon") + visibleText(first.message) : "";
  return {
    text: decisionText(first, approval, t, outcomes[0]!.again) + said,
    tone: rejected ? "bad" : KINDS.includes(kindOf(outcomes[0]!)) ? "good" : "neutral",
    icon: rejected ? "cross" : first.type === "edit" ? "pencil" : "check",
  };
}

const withdrawn = ({ reason }: ApprovalView, t: Translate): Summary => ({ text: withdrawnText(reason, t), tone: "neutral", icon: "cross" });

/** A resolution that only a newer server knows is shown in its words: nobody is named as having decided it. */
function otherEnd({ resolution = "decided" }: ApprovalView): Summary | undefined {
  return resolution === "decided" ? undefined : { text: visibleText(resolution), tone: "neutral", icon: "clock" };
}

/** The decision on one action; `again`: it is an edit, and people were or will be asked about it. */
interface Outcome {
  decision: Decision;
  again: boolean;
}

const KINDS: readonly Kind[] = ["approve", "edit", "changed", "respond", "defer", "reject"];

type Kind = Decision["type"] | "changed";

const kindOf = ({ decision, again }: Outcome): Kind => (decision.type === "edit" && again ? "changed" : decision.type);

/** How many were decided in each way. */
function mixedText(outcomes: Outcome[], approval: ApprovalView, t: Translate): string {
  // A newer server may have others, which come last, in its words.
  const kinds = new Set([...KINDS, ...outcomes.map(kindOf)]);
  const said = [...kinds].flatMap((type) => {
    const alike = outcomes.filter((one) => kindOf(one) === type);
    const n = alike.length;
    if (n === 0) return [];
    if (approval.kind !== "in_doubt" && KINDS.includes(type)) return t(`resolved.n.${type}`, { n });
    return decisionText(alike[0]!.decision, approval, t, alike[0]!.again) + t("text.paren", { text: n });
  });
  return said.join(t("text.comma"));
}

/** With the answer, where it is a short one. */
function summarizeInterrupt(approval: ApprovalView, t: Translate): Summary {
  const { resolution, resume } = approval;
  if (resolution === "timeout") return { text: t("question.timeout"), tone: "bad", icon: "clock" };
  if (resolution === "cancelled") return withdrawn(approval, t);
  const other = otherEnd(approval);
  if (other) return other;
  const asked = elicitationOf(approval);
  const outcome = asked && elicitationResultOf(asked, resume);
  if (outcome?.action === "accept") return { text: t("elicit.accepted"), tone: "good", icon: "check" };
  if (outcome) {
    return { text: t(outcome.action === "decline" ? "question.declined" : "resolved.cancelled"), tone: "neutral", icon: "cross" };
  }
  const short = shortAnswer(resume, t);
  return {
    text: t("resolved.answered") + (short === undefined ? "" : t("text.colon") + short),
    tone: resume === false ? "neutral" : "good",
    icon: resume === false ? "cross" : "check",
  };
}

/** An answer in one line; `undefined` if it is longer, or has not come yet. */
export function shortAnswer(resume: JsonValue | undefined, t: Translate): string | undefined {
  if (resume === undefined) return undefined;
  if (typeof resume === "boolean") return t(resume ? "interrupt.yes" : "interrupt.no");
  const text = valueText(resume);
  return text.length <= 60 && !text.includes("\n") ? visibleText(text) : undefined;
}

function summarizeQuestion(approval: ApprovalView, t: Translate): Summary {
  const { resolution, answers, decisions } = approval;
  if (resolution === "timeout") return { text: t("question.timeout"), tone: "bad", icon: "clock" };
  if (resolution === "cancelled") return withdrawn(approval, t);
  const other = otherEnd(approval);
  if (other) return other;
  if (answers) return { text: t("resolved.answered"), tone: "good", icon: "check" };
  const reject = decisions?.[0];
  const said = reject?.type === "reject" && reject.message ? t("text.colon") + visibleText(reject.message) : "";
  return { text: t("question.declined") + said, tone: "neutral", icon: "cross" };
}

function decisionText(decision: Decision, approval: ApprovalView, t: Translate, again: boolean): string {
  const doubt = approval.kind === "in_doubt";
  switch (decision.type) {
    case "approve":
      return t(doubt ? "resolved.doubt.approve" : "resolved.approved");
    case "reject":
      return t(doubt ? "resolved.doubt.reject" : "resolved.rejected");
    case "respond":
      return t(doubt ? "resolved.doubt.respond" : "resolved.responded");
    case "edit":
      return t(again ? "resolved.changed" : "resolved.edited");
    case "defer":
      return t("resolved.deferred");
    default:
      return visibleText((decision as { type: string }).type);
  }
}
