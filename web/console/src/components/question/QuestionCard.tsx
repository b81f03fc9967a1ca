/** The questions of an agent: what is around them, and the form in which they are answered. */
import { isObject, questionsOf, stringifyJson, type ApprovalView, type JsonObject } from "@countersign/client";
import { QuestionForm, Visible, visibleText, type Replying } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { draftKeys } from "../../lib/unsent.js";
import { useBar } from "../../state/me.js";
import { AgentPath } from "../approval/AgentPath.js";
import { CardFrame } from "../approval/CardFrame.js";
import { People } from "../approval/People.js";
import { Asked } from "./Asked.js";

interface Props {
  approval: ApprovalView;
  submission: Replying;
}

export function QuestionCard({ approval, submission }: Props) {
  const { t } = useI18n();
  const action = approval.actions[0];
  const questions = questionsOf(action?.args);
  const errors = answerErrors(submission.error?.details);
  const bar = useBar(approval);
  return (
    <CardFrame
      approval={approval}
      submission={submission}
      problems={errors.map((e) => ({ what: visibleText(e.question), message: e.message }))}
    >
      {action?.path && action.path.length > 0 && (
        <div className="facts-line asked-by">
          <span className="fact">
            {t("card.agent")}
            {t("text.colon")}
            <strong>{visibleText(action.agent ?? "")}</strong>
          </span>
          <AgentPath action={action} />
        </div>
      )}
      {bar && <People approval={approval} bar={bar} />}
      {questions && bar ? (
        <Asked questions={questions} />
      ) : questions ? (
        <QuestionForm questions={questions} draftKey={draftKeys(approval).reply} replying={submission} />
      ) : (
        <div className="action">
          <p>{t("question.unsupported")}</p>
          <pre tabIndex={0}>
            <Visible text={stringifyJson(approval.actions, 2)} />
          </pre>
        </div>
      )}
    </CardFrame>
  );
}

/** `details.errors` of `invalid_answers`. */
function answerErrors(details: JsonObject | undefined): { question: string; message: string }[] {
  const errors = Array.isArray(details?.errors) ? details.errors : [];
  return errors.filter(isObject).map((e) => ({ question: String(e.question ?? ""), message: String(e.message ?? "") }));
}
