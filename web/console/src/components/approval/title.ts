import { questionsOf, type ApprovalView } from "@countersign/client";
import type { Translate } from "../../i18n/index.js";
import { elicitationOf } from "../../lib/elicitation.js";
import { visibleText } from "../../lib/visible.js";

/** What a card is called: the server's title for a single action, else a general one. */
export function cardTitle(approval: ApprovalView, t: Translate): string {
  const own = approval.actions.length === 1 ? approval.reviewConfigs[0]?.title : undefined;
  if (own) return visibleText(own);
  if (approval.kind === "in_doubt") return t(approval.step ? "card.titleInDoubtStep" : "card.titleInDoubt");
  if (approval.kind === "question") {
    const n = questionsOf(approval.actions[0]?.args)?.length ?? 1;
    const { agent, path } = approval.actions[0] ?? {};
    // One that was asked by another agent is not the one that people talk to.
    if (agent !== undefined && path && path.length > 0) {
      const name = visibleText(agent);
      return n > 1 ? t("card.titleQuestionsOf", { n, agent: name }) : t("card.titleQuestionOf", { agent: name });
    }
    return n > 1 ? t("card.titleQuestions", { n }) : t("card.titleQuestion");
  }
  const asked = elicitationOf(approval);
  if (asked) return t(asked.address ? "elicit.titleAddress" : "elicit.title", { server: visibleText(asked.from) });
  if (approval.kind === "interrupt" || approval.kind === "input") return t("card.titleInterrupt", { name: subjectOf(approval) });
  return approval.actions.length > 1 ? t("card.titleMany", { n: approval.actions.length }) : t("card.title");
}

export function toolNames(approval: ApprovalView): string {
  return visibleText([...new Set(approval.actions.map((a) => a.name))].join(", "));
}

/** What a request is about, in a few words: the tools, or the first question. */
export function subjectOf(approval: ApprovalView): string {
  const question = approval.kind === "question" ? firstQuestion(approval) : messageOf(approval);
  return question ?? toolNames(approval);
}

/** What a server asks, as far as a line holds it. */
export function messageOf(approval: ApprovalView): string | undefined {
  const message = elicitationOf(approval)?.message;
  return message && visibleText(message.length > 160 ? `${message.slice(0, 160)}…` : message);
}

export function firstQuestion(approval: ApprovalView): string | undefined {
  const text = questionsOf(approval.actions[0]?.args)?.[0]?.question;
  return text && visibleText(text);
}
