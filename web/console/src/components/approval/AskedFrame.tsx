/**
 * The frame of a question from an agent, a graph's node or a server: who asks, and who has to answer. A person who may
 * not answer sees the question but no form; for an unknown kind of question nobody sees a form.
 */
import type { ReactNode } from "react";
import { asksForValue, parseJson, questionsOf } from "@countersign/client";
import { visibleText, type FrameProps } from "@countersign/react";
import { answerForm, choiceText, elicitationOf } from "@countersign/react/forms";
import { useI18n } from "../../i18n/index.js";
import type { Bar } from "../../lib/people.js";
import { useBar } from "../../state/bar.js";
import { AskedBy } from "../interrupt/AskedBy.js";
import { Payload } from "../interrupt/Payload.js";
import { Asked } from "../question/Asked.js";
import { AgentPath } from "./AgentPath.js";
import { CardFrame } from "./CardFrame.js";
import { People } from "./People.js";

export function AskedFrame(props: FrameProps) {
  const { approval, replying, problems } = props;
  const bar = useBar(approval);
  return (
    <CardFrame approval={approval} replying={replying} problems={problems}>
      {approval.kind === "question" ? (
        <OfAgent {...props} bar={bar} />
      ) : asksForValue(approval) ? (
        <OfProgram {...props} bar={bar} />
      ) : (
        <div className="action">{props.asked}</div>
      )}
    </CardFrame>
  );
}

interface Props extends FrameProps {
  bar: Bar | undefined;
}

/** Questions; `asked` are those that cannot be read. */
function OfAgent({ approval, asked, bar, children }: Props) {
  const { t } = useI18n();
  const action = approval.actions[0];
  const questions = questionsOf(action?.args);
  const means = bar ? null : children;
  return (
    <>
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
      {!questions ? (
        <div className="action">
          {asked}
          {means}
        </div>
      ) : (
        (means ?? <Asked questions={questions} />)
      )}
    </>
  );
}

/** The question of a graph's node, or of a server in the middle of a call. */
function OfProgram({ approval, replying, asked, bar, children }: Props) {
  const action = approval.actions[0];
  const server = elicitationOf(approval);
  return (
    <>
      <People approval={approval} bar={bar} />
      <div className="action interrupt">
        <AskedBy approval={approval} named={server !== undefined} />
        {server ? asked : action && <Payload action={action} payload={approval.interrupt?.payload} />}
        {bar ? null : server ? children : <Choices approval={approval} replying={replying} form={children} />}
      </div>
    </>
  );
}

/** If the answer is a yes or one of few choices: a button for each, which sends it. */
function Choices({ approval, replying, form }: Pick<FrameProps, "approval" | "replying"> & { form: ReactNode }) {
  const { t } = useI18n();
  const kind = answerForm(approval.interrupt?.schema);
  if (kind.kind !== "boolean" && kind.kind !== "buttons") return form;
  const options =
    kind.kind === "boolean"
      ? [
          { value: "true", text: t("interrupt.yes") },
          { value: "false", text: t("interrupt.no") },
        ]
      : kind.options.map((value, i) => ({ value, text: visibleText(kind.labels?.[i] ?? choiceText(value)) }));
  return (
    <div className="buttons" role="group" aria-label={t("interrupt.answer")}>
      {options.map(({ value, text }, i) => (
        <button
          key={value}
          type="button"
          className={kind.kind === "boolean" && i === 0 ? "button primary" : "button"}
          disabled={replying.state !== "idle"}
          onClick={() => void replying.send({ resume: parseJson(value) })}
        >
          {text}
        </button>
      ))}
    </div>
  );
}
