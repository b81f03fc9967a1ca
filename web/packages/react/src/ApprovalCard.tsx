import { asksForValue, configOf, decisionFor, type ApprovalView } from "@countersign/client";
import { Arguments } from "./arguments/Arguments.js";
import { Changes } from "./arguments/Changes.js";
import { PreviewText } from "./arguments/PreviewText.js";
import { DecisionCard } from "./DecisionCard.js";
import { useLabels, useTexts } from "./labels.js";
import { Answered, Questions } from "./QuestionCard.js";
import { Request, type CardProps, type PendingProps } from "./Request.js";
import { ValueCard } from "./ValueCard.js";
import { Visible } from "./Visible.js";
import { visibleText } from "./visibleText.js";

/**
 * Any request for a person: calls to decide, questions to answer, or the question of a graph's node; and once it is
 * over, how it ended. Nothing is preselected, and every reply names what was shown.
 */
export function ApprovalCard(props: CardProps) {
  const { approval, components } = props;
  const { approvalKey: key } = approval;
  if (approval.kind === "question") return <Request key={key} {...props} Waiting={Questions} Outcome={Answered} />;
  if (!KINDS.includes(approval.kind)) return <Request key={key} {...props} Waiting={UnknownCard} Outcome={Decided} />;
  const Waiting = asksForValue(approval) ? ValueCard : (components?.Decisions ?? DecisionCard);
  return <Request key={key} {...props} Waiting={Waiting} Outcome={Decided} />;
}

const KINDS: readonly string[] = ["approval", "in_doubt", "interrupt", "input"] satisfies ApprovalView["kind"][];

/** The meaning of a reply to it is not known here, so there is no way to reply. */
function UnknownCard({ approval, replying, className, Frame }: PendingProps) {
  const labels = useLabels();
  const { part } = useTexts();
  const asked = (
    <>
      <p {...part("caution")}>{labels.unknownKind(visibleText(approval.kind))}</p>
      {approval.actions.map((action, i) => (
        <figure key={action.id ?? i} {...part("call")}>
          <figcaption>
            <Visible text={action.name} />
          </figcaption>
          <Arguments action={action} config={configOf(approval, i)} />
        </figure>
      ))}
    </>
  );
  return (
    <Frame approval={approval} replying={replying} className={className} asked={asked}>
      {null}
    </Frame>
  );
}

/** The outcome of each call: the arguments that ran are those of an edit, if there was one. */
function Decided({ approval }: { approval: ApprovalView }) {
  const labels = useLabels();
  const { part } = useTexts();
  const { actions, decisions } = approval;
  return actions.map((action, i) => {
    const decision = decisionFor(decisions, i);
    return (
      <figure key={action.id ?? i} {...part("call")} data-decision={decision?.type}>
        <figcaption>
          <Visible text={action.name} />
          {decision && actions.length > 1 && `: ${labels.choices[decision.type] ?? decision.type}`}
        </figcaption>
        <Ran approval={approval} index={i} />
      </figure>
    );
  });
}

function Ran({ approval, index }: { approval: ApprovalView; index: number }) {
  const action = approval.actions[index]!;
  const config = configOf(approval, index);
  const decision = decisionFor(approval.decisions, index);
  if (decision?.type !== "edit") {
    return (
      <>
        <Arguments action={action} config={config} />
        <PreviewText preview={action.preview} />
      </>
    );
  }
  const { name } = action;
  const after = decision.edited_action;
  return (
    <>
      <Arguments action={{ name: after.name, args: after.args }} config={config} />
      <Changes names={[name, after.name]} before={action.args} after={after.args} display={action.display} schema={config.args_schema} />
    </>
  );
}
