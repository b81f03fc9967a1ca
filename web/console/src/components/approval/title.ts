import { questionsOf, type ApprovalView } from "@countersign/client";
import type { Translate } from "../../i18n/index.js";
import { visibleText } from "../../lib/visible.js";

/** What a card is called: the server's title for a single action, else a general one. */
export function cardTitle(approval: ApprovalView, t: Translate): string {
  const own = approval.actions.length === 1 ? approval.reviewConfigs[0]?.title : undefined;
  if (own) return visibleText(own);
  if (approval.kind === "in_doubt") return t(approval.step ? "card.titleInDoubtStep" : "card.titleInDoubt");
  if (approval.kind === "question") {
    const n = questionsOf(approval.actions[0]?.args)?.length ?? 1;
    return n > 1 ? t("card.titleQuestions", { n }) : t("card.titleQuestion");
  }
  if (approval.kind === "interrupt" || approval.kind === "input") return t("card.titleInterrupt", { name: subjectOf(approval) });
  return approval.actions.length > 1 ? t("card.titleMany", { n: approval.actions.length }) : t("card.title");
}

export function toolNames(approval: ApprovalView): string {
  return visibleText([...new Set(approval.actions.map((a) => a.name))].join(", "));
}

/** What a request is about, in a few words: the tools, or the first question. */
export function subjectOf(approval: ApprovalView): string {
  const question = approval.kind === "question" ? firstQuestion(approval) : undefined;
  return question ?? toolNames(approval);
}

export function firstQuestion(approval: ApprovalView): string | undefined {
  const text = questionsOf(approval.actions[0]?.args)?.[0]?.question;
  return text && visibleText(text);
}
