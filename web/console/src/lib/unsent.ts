/** A person's input for a request that somebody else, or its deadline, resolved first. */
import { configOf, questionsOf, stringifyJson, type Action, type ApprovalView, type ReviewConfig } from "@countersign/client";
import { answerText, type CallDraft, type ReplyDraft } from "@countersign/react";
import { ANSWER, answerForm, argFields, choiceText, chosenOf, diff, editedArgs, elicitationForm, elicitationOf, emptyAnswer, isGroup, newEdit, partOf, type Field, type FieldDraft } from "@countersign/react/forms";

/** The name under which a tab keeps a comment for the other people. */
export const commentKey = ({ approvalKey }: ApprovalView) => `talk:${approvalKey}`;

/**
 * Their texts, without those that the page had put there; a choice alone does not count. What `me` sent is no such
 * text if the reply that counted is theirs, although the page was reloaded before it could forget what was sent.
 */
export function unsentTexts(approval: ApprovalView, kept: ReplyDraft | undefined, comment = "", me?: string): string[] {
  const draft = kept?.sent && approval.resolution === "decided" && approval.by === me ? undefined : kept;
  const texts = (draft?.calls ?? []).flatMap((one, i) => {
    const action = approval.actions[i];
    return action ? [one.reason, one.output, editText(action, configOf(approval, i), one)] : [];
  });
  const answers = (questionsOf(approval.actions[0]?.args) ?? []).flatMap((question, i) => {
    const answer = draft?.answers?.[i];
    return answer && !answer.skipped ? answerText(question, answer) : [];
  });
  return [...texts, draft?.comment ?? "", ...answers, draft?.reason ?? "", resumeText(approval, draft), comment]
    .map((text) => text.trim())
    .filter(Boolean);
}

function editText(action: Action, config: ReviewConfig, draft: CallDraft): string {
  if (!draft.edit) return "";
  const args = editedArgs(action, config, draft.edit);
  if (args) {
    return diff(action.args, args)
      .map(({ path, after }) => `${path}: ${after === undefined ? "" : stringifyJson(after)}`)
      .join("\n");
  }
  // Half-typed arguments cannot be read, and are kept as they are.
  const fields = argFields(action, config);
  return draft.edit.tab === "form" && fields ? filledIn(fields, newEdit(fields, action.args).texts, draft.edit.texts) : draft.edit.raw;
}

function resumeText(approval: ApprovalView, draft: ReplyDraft | undefined): string {
  if (!draft?.texts) return "";
  const asked = elicitationOf(approval);
  const form = asked ? elicitationForm(asked) : answerForm(approval.interrupt?.schema);
  const fields = form.kind === "object" ? form.fields : form.kind === "field" ? [form.field] : [];
  return filledIn(fields, emptyAnswer(form).texts, draft.texts);
}

/** The fields of a form that a person has changed, one line for each. */
function filledIn(fields: Field[], before: FieldDraft, now: FieldDraft, inside = ""): string {
  return fields.flatMap((field) => changedIn(field, partOf(before, field.name), partOf(now, field.name), inside)).join("\n");
}

function changedIn(field: Field, before: FieldDraft, now: FieldDraft, inside: string): string[] {
  const name = field.name === ANSWER ? "" : `${inside}${field.title ?? field.name}`;
  const within = name === "" ? "" : `${name} › `;
  if (isGroup(now)) return [filledIn(field.fields ?? [], before, now, within)].filter(Boolean);
  if (Array.isArray(now)) {
    return now.flatMap((one, i) => changedIn({ ...field.item!, name: String(i + 1) }, partOf(before, i), one, within));
  }
  if (now === before) return [];
  const text = shownText(field, now);
  return [name === "" ? text : `${name}: ${text}`];
}

/** Choices in the words that people chose. */
function shownText({ kind, options, labels }: Field, text: string): string {
  if (text === "" || (kind !== "enum" && kind !== "choices")) return text;
  const chosen = kind === "enum" ? [text] : chosenOf(text);
  return chosen.map((one) => labels?.[options?.indexOf(one) ?? -1] ?? choiceText(one)).join(", ");
}
