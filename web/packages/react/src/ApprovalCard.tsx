import { asksForValue, configOf, decisionFor, type ApprovalView } from "@countersign/client";
import { Arguments } from "./arguments/Arguments.js";
import { Changes } from "./arguments/Changes.js";
import { PreviewText } from "./arguments/PreviewText.js";
import { DecisionCard } from "./DecisionCard.js";
import { draftKey } from "./drafts.js";
import { Resolved } from "./Frame.js";
import { useLabels } from "./labels.js";
import { QuestionCard } from "./QuestionCard.js";
import type { CardProps } from "./useReply.js";
import { ValueCard } from "./ValueCard.js";
import { Visible } from "./Visible.js";

/**
 * Any request for a person: calls to decide, questions to answer, what a node of a graph asks; and once it is over, how
 * it ended. Nothing is chosen beforehand, and every reply names what was shown.
 */
export function ApprovalCard(props: CardProps) {
  const { approval } = props;
  // What was entered, and seen, belongs to what is shown: under the same key there can be other calls later.
  const key = draftKey(approval);
  if (approval.kind === "question") return <QuestionCard key={key} {...props} />;
  if (approval.resolution !== undefined) return <DecidedCard {...props} />;
  if (!approval.complete) return null;
  return asksForValue(approval) ? <ValueCard key={key} {...props} /> : <DecisionCard key={key} {...props} />;
}

/** What became of each call: the arguments that ran are those of an edit, where there was one. */
function DecidedCard({ approval, className }: CardProps) {
  const labels = useLabels();
  const { actions, decisions } = approval;
  return (
    <Resolved approval={approval} className={className}>
      {actions.map((action, i) => {
        const decision = decisionFor(decisions, i);
        return (
          <figure key={action.id ?? i} data-part="call" data-decision={decision?.type}>
            <figcaption>
              <Visible text={action.name} />
              {decision && actions.length > 1 && `: ${labels.choices[decision.type]}`}
            </figcaption>
            <Ran approval={approval} index={i} />
          </figure>
        );
      })}
    </Resolved>
  );
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
