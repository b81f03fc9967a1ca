import { useId, useState } from "react";
import { stringifyJson, type Action, type Decision, type DecisionType } from "@countersign/client";
import { useCountersign } from "./context.js";
import { allowedFor, callDraft, decisionOf, readArgs, readJson, shownArgs, type CallDraft } from "./drafts.js";
import { Frame, Resolved } from "./Frame.js";
import { QuestionCard } from "./QuestionCard.js";
import { useReply, type CardProps } from "./useReply.js";
import { visible } from "./visible.js";

/**
 * Any request for a person: calls to decide, questions to answer, what a node of a graph asks; and once it is over, how
 * it ended. Nothing is chosen beforehand, and every reply names what was shown.
 */
export function ApprovalCard(props: CardProps) {
  const { approval } = props;
  // What was entered belongs to one request.
  const key = approval.approvalKey;
  if (approval.kind === "question") return <QuestionCard key={key} {...props} />;
  if (approval.resolution !== undefined) return <DecidedCard {...props} />;
  if (!approval.complete) return null;
  return approval.interrupt ? <ValueCard key={key} {...props} /> : <DecisionCard key={key} {...props} />;
}

function DecisionCard({ approval, onReply, className }: CardProps) {
  const { labels } = useCountersign();
  const replying = useReply(approval, onReply);
  const [drafts, setDrafts] = useState(() => approval.actions.map(callDraft));
  const [comment, setComment] = useState("");
  const [problem, setProblem] = useState<string>();
  const commentId = useId();

  const submit = () => {
    const decisions = approval.actions.map((action, i) => decisionOf(action, drafts[i] ?? callDraft(action)));
    const wrong = drafts.map((draft) => (draft.choice === "edit" ? readArgs(draft.args) : {})).find((read) => "wrong" in read);
    if (wrong && "wrong" in wrong) return setProblem(`${labels.notJson}: ${wrong.wrong}`);
    if (!decisions.every((decision): decision is Decision => decision !== undefined)) return setProblem(labels.choose);
    setProblem(undefined);
    const words = comment.trim();
    void replying.send({ decisions, ...(words ? { user_edit_content: words } : {}) });
  };
  return (
    <Frame approval={approval} replying={replying} className={className} problem={problem} onSubmit={submit}>
      {approval.kind === "in_doubt" && <p data-part="in-doubt">{labels.inDoubt}</p>}
      {approval.actions.map((action, i) => (
        <CallFields
          key={action.id ?? i}
          action={action}
          allowed={allowedFor(approval, i)}
          draft={drafts[i] ?? callDraft(action)}
          onDraft={(next) => setDrafts(drafts.map((draft, j) => (j === i ? next : draft)))}
        />
      ))}
      <p data-part="comment">
        <label htmlFor={commentId}>{labels.comment}</label>
        <textarea id={commentId} value={comment} onChange={(e) => setComment(e.target.value)} />
      </p>
    </Frame>
  );
}

interface CallProps {
  action: Action;
  allowed: DecisionType[];
  draft: CallDraft;
  onDraft: (next: CallDraft) => void;
}

/** One call: what would run, what is said about it, and the choices. */
function CallFields({ action, allowed, draft, onDraft }: CallProps) {
  const { labels } = useCountersign();
  const id = useId();
  const field = (name: "reason" | "args" | "output", label: string) => (
    <p data-part={name}>
      <label htmlFor={`${id}-${name}`}>{label}</label>
      <textarea id={`${id}-${name}`} value={draft[name]} onChange={(e) => onDraft({ ...draft, [name]: e.target.value })} />
    </p>
  );
  return (
    <fieldset data-part="call">
      <legend>{visible(action.name)}</legend>
      {action.description && <p data-part="description">{visible(action.description)}</p>}
      <pre data-part="shown" tabIndex={0}>
        {shownArgs(action)}
      </pre>
      {action.preview && (
        <figure data-part="preview">
          <figcaption>{labels.preview}</figcaption>
          <pre tabIndex={0}>{action.preview.text}</pre>
        </figure>
      )}
      {action.agent_says && (
        <p data-part="agent-says">
          {labels.agentSays}: {action.agent_says}
        </p>
      )}
      {allowed.map((choice) => (
        <label key={choice}>
          <input type="radio" name={id} checked={draft.choice === choice} onChange={() => onDraft({ ...draft, choice })} />
          {labels.choices[choice]}
        </label>
      ))}
      {draft.choice === "reject" && field("reason", labels.reason)}
      {draft.choice === "edit" && field("args", labels.args)}
      {draft.choice === "respond" && field("output", labels.result)}
    </fieldset>
  );
}

/** What became of each call: the arguments that ran are those of an edit, where there was one. */
function DecidedCard({ approval, className }: CardProps) {
  const { labels } = useCountersign();
  const { actions, decisions } = approval;
  return (
    <Resolved approval={approval} className={className}>
      {actions.map((action, i) => {
        const decision = decisions?.[i] ?? decisions?.[0];
        return (
          <figure key={action.id ?? i} data-part="call" data-decision={decision?.type}>
            <figcaption>
              {visible(action.name)}
              {decision && actions.length > 1 && `: ${labels.choices[decision.type]}`}
            </figcaption>
            <pre data-part="shown">
              {decision?.type === "edit" ? visible(stringifyJson(decision.edited_action.args, 2)) : shownArgs(action)}
            </pre>
          </figure>
        );
      })}
    </Resolved>
  );
}

/** What a node of a graph, or a tool, asks: any JSON value is the answer. */
function ValueCard({ approval, onReply, className }: CardProps) {
  const { labels } = useCountersign();
  const replying = useReply(approval, onReply);
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<string>();
  const id = useId();
  const submit = () => {
    const read = readJson(text);
    if ("wrong" in read) return setProblem(`${labels.notJson}: ${read.wrong}`);
    setProblem(undefined);
    void replying.send({ resume: read.value });
  };
  return (
    <Frame approval={approval} replying={replying} className={className} problem={problem} onSubmit={submit}>
      {approval.actions.map((action, i) => (
        <pre key={i} data-part="shown" tabIndex={0}>
          {shownArgs(action)}
        </pre>
      ))}
      <p data-part="answer">
        <label htmlFor={id}>{labels.answer}</label>
        <textarea id={id} value={text} onChange={(e) => setText(e.target.value)} />
      </p>
    </Frame>
  );
}
