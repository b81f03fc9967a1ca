import { asksForValue, questionsOf, type ApprovalView } from "@countersign/client";
import { shownArgs, visibleText } from "@countersign/react";
import { elicitationOf, inLine } from "@countersign/react/forms";
import type { Translate } from "../../i18n/index.js";

/** The operator's line about a single action. */
function ownTitle({ actions, reviewConfigs }: ApprovalView): string | undefined {
  const own = actions.length === 1 ? reviewConfigs[0]?.title : undefined;
  return own && visibleText(own);
}

/** A card's title: the operator's line about a single action, otherwise the kind of the request. */
export function cardTitle(approval: ApprovalView, t: Translate): string {
  const own = approval.kind === "approval" ? ownTitle(approval) : undefined;
  if (own) return own;
  if (approval.kind === "in_doubt") return t(approval.step ? "card.titleInDoubtStep" : "card.titleInDoubt");
  if (approval.kind === "question") {
    const n = questionsOf(approval.actions[0]?.args)?.length ?? 1;
    const { agent, path } = approval.actions[0] ?? {};
    // An agent that another agent called is not the one that people talk to.
    if (agent !== undefined && path && path.length > 0) {
      const name = visibleText(agent);
      return n > 1 ? t("card.titleQuestionsOf", { n, agent: name }) : t("card.titleQuestionOf", { agent: name });
    }
    return n > 1 ? t("card.titleQuestions", { n }) : t("card.titleQuestion");
  }
  const asked = elicitationOf(approval);
  if (asked) return t(asked.address ? "elicit.titleAddress" : "elicit.title", { server: visibleText(asked.from) });
  if (asksForValue(approval)) return t("card.titleInterrupt", { name: subjectOf(approval, t) });
  return approval.actions.length > 1 ? t("card.titleMany", { n: approval.actions.length }) : t("card.title", { tool: toolNames(approval, t) });
}

/** The title of a list row. In a long list the kind of request would say nothing. */
export function rowTitle(approval: ApprovalView, t: Translate): string {
  if (approval.kind === "question") return firstQuestion(approval) ?? cardTitle(approval, t);
  if (approval.kind !== "approval") return messageOf(approval) ?? cardTitle(approval, t);
  const [first, ...rest] = approval.actions.map((action, i) => visibleText(approval.reviewConfigs[i]?.title ?? action.name));
  return rest.length > 0 ? `${first} ${t("inbox.more", { n: rest.length })}` : (first ?? cardTitle(approval, t));
}

/** The line below the title: the arguments, or the kind of request. */
export function rowDetail(approval: ApprovalView, t: Translate): string | undefined {
  if (approval.kind === "question" || approval.kind === "input") {
    const title = cardTitle(approval, t);
    return title === rowTitle(approval, t) ? undefined : title;
  }
  const own = approval.kind === "in_doubt" ? ownTitle(approval) : undefined;
  const [first] = approval.actions;
  return own ?? (first && inLine(shownArgs(first)));
}

export function toolNames(approval: ApprovalView, t: Translate): string {
  return visibleText([...new Set(approval.actions.map((a) => a.name))].join(t("text.list")));
}

/** The subject of a request, in a few words: the first question, the operator's line, or the tools. */
export function subjectOf(approval: ApprovalView, t: Translate): string {
  const question = approval.kind === "question" ? firstQuestion(approval) : messageOf(approval);
  return question ?? ownTitle(approval) ?? toolNames(approval, t);
}

/** The message of a server, as much as fits in a line. */
export function messageOf(approval: ApprovalView): string | undefined {
  const message = elicitationOf(approval)?.message;
  return message && visibleText(message.length > 160 ? `${message.slice(0, 160)}…` : message);
}

export function firstQuestion(approval: ApprovalView): string | undefined {
  const text = questionsOf(approval.actions[0]?.args)?.[0]?.question;
  return text && visibleText(text);
}
