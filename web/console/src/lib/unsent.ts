/** What a person had entered about a request that somebody else, or time, resolved first. */
import { questionsOf, stringifyJson, type ApprovalView } from "@countersign/client";
import { configOf, editedArgs, type CardDraft } from "./decisions.js";
import { diff } from "./diff.js";
import { answerText, type QuestionDraft } from "./questions.js";

/** Their texts, without those that the page had put there; a choice alone is none. */
export function unsentTexts(approval: ApprovalView, draft: Partial<CardDraft & QuestionDraft> | undefined): string[] {
  const texts = (draft?.actions ?? []).flatMap((one, i) => {
    const action = approval.actions[i];
    if (!action) return [];
    const args = one.edit && editedArgs(action, configOf(approval, i), one);
    // Half-typed arguments cannot be read, and are kept as they are.
    const edit = !one.edit ? "" : args ? diff(action.args, args).map(({ path, after }) => `${path}: ${after === undefined ? "" : stringifyJson(after)}`).join("\n") : one.edit.raw;
    return [one.reason, one.output, edit];
  });
  const answers = (questionsOf(approval.actions[0]?.args) ?? []).flatMap((question, i) => {
    const answer = draft?.answers?.[i];
    return answer && !answer.skipped ? answerText(question, answer) : [];
  });
  return [...texts, draft?.comment ?? "", ...answers, draft?.reason ?? ""].map((text) => text.trim()).filter(Boolean);
}
