import { useId, useState } from "react";
import { allowedOf, asksForValue, configOf, decisionFor, decisionOf, progress, stringifyJson, type Action, type ApprovalView, type Decision, type Preview } from "@countersign/client";
import { callDraft, draftKey, readArgs, readJson, shownArgs, type CallDraft } from "./drafts.js";
import { Form, Frame, Resolved } from "./Frame.js";
import { useLabels } from "./labels.js";
import { QuestionCard } from "./QuestionCard.js";
import { useDraft } from "./useDraft.js";
import { useEditPreview, type EditPreviewing } from "./useEditPreview.js";
import { useReply, type CardProps } from "./useReply.js";
import { Visible } from "./Visible.js";
import { visibleText } from "./visibleText.js";

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
  return asksForValue(approval) ? <ValueCard key={key} {...props} /> : <DecisionCard key={key} {...props} />;
}

function DecisionCard({ approval, onReply, className }: CardProps) {
  const labels = useLabels();
  const replying = useReply(approval, onReply);
  const empty = () => ({ calls: approval.actions.map(callDraft), comment: "" });
  const [draft, setDraft] = useDraft(draftKey(approval), empty);
  const [problem, setProblem] = useState<string>();
  const commentId = useId();

  const submit = async () => {
    const decisions: Decision[] = [];
    for (const [i, action] of approval.actions.entries()) {
      const { json, ...chosen } = draft.calls[i] ?? callDraft(action);
      const read = chosen.choice === "edit" ? readArgs(json) : { args: undefined };
      if ("wrong" in read) return setProblem(`${labels.notJson}: ${read.wrong}`);
      const decision = decisionOf(action, configOf(approval, i), { ...chosen, args: read.args });
      if (!decision) return setProblem(labels.choose);
      decisions.push(decision);
    }
    setProblem(undefined);
    const words = draft.comment.trim();
    if (!(await replying.send({ decisions, ...(words ? { user_edit_content: words } : {}) }))) return;
    // Once it is stored, nothing is left to restore; where more people must approve, the card begins anew.
    setDraft(progress(approval) ? empty() : undefined);
  };
  return (
    <Frame approval={approval} replying={replying} className={className} problem={problem}>
      {approval.kind === "in_doubt" && <p data-part="in-doubt">{labels.inDoubt}</p>}
      <Form replying={replying} onSubmit={() => void submit()}>
        {approval.actions.map((action, i) => (
          <CallFields
            key={action.id ?? i}
            approval={approval}
            index={i}
            action={action}
            draft={draft.calls[i] ?? callDraft(action)}
            sending={replying.state !== "no"}
            onDraft={(next) => setDraft({ ...draft, calls: draft.calls.map((one, j) => (j === i ? next : one)) })}
          />
        ))}
        <p data-part="comment">
          <label htmlFor={commentId}>{labels.comment}</label>
          <textarea id={commentId} value={draft.comment} onChange={(e) => setDraft({ ...draft, comment: e.target.value })} />
        </p>
      </Form>
    </Frame>
  );
}

interface CallProps {
  approval: ApprovalView;
  index: number;
  action: Action;
  draft: CallDraft;
  sending: boolean;
  onDraft: (next: CallDraft) => void;
}

/** One call: what would run, what is said about it, and the choices. */
function CallFields({ approval, index, action, draft, sending, onDraft }: CallProps) {
  const labels = useLabels();
  const id = useId();
  const config = configOf(approval, index);
  const read = draft.choice === "edit" ? readArgs(draft.json) : undefined;
  const wrong = read !== undefined && "wrong" in read;
  const decision = read && "args" in read ? decisionOf(action, config, { ...draft, args: read.args }) : undefined;
  const editing = useEditPreview(approval, index, decision?.type === "edit" ? decision.edited_action : undefined, sending);
  const field = (name: "reason" | "json" | "output", label: string) => (
    <p data-part={name}>
      <label htmlFor={`${id}-${name}`}>{label}</label>
      <textarea id={`${id}-${name}`} value={draft[name]} onChange={(e) => onDraft({ ...draft, [name]: e.target.value })} />
    </p>
  );
  return (
    <fieldset data-part="call">
      <legend>
        <Visible text={action.name} />
      </legend>
      {action.description && (
        <p data-part="description">
          <Visible text={action.description} />
        </p>
      )}
      <pre data-part="shown" tabIndex={0}>
        {shownArgs(action)}
      </pre>
      {/* What it would do as it was proposed is not shown beside other arguments. */}
      {editing.state === "no" && !wrong && <PreviewFigure preview={action.preview} />}
      {action.agent_says && (
        <p data-part="agent-says">
          {labels.agentSays}: <Visible text={action.agent_says} />
        </p>
      )}
      {allowedOf(config).map((choice) => (
        <label key={choice}>
          <input type="radio" name={id} checked={draft.choice === choice} onChange={() => onDraft({ ...draft, choice })} />
          {labels.choices[choice]}
        </label>
      ))}
      {draft.choice === "reject" && field("reason", labels.reason)}
      {draft.choice === "edit" && field("json", labels.args)}
      {draft.choice === "edit" && <LeadsTo editing={editing} />}
      {draft.choice === "respond" && field("output", labels.result)}
    </fieldset>
  );
}

function PreviewFigure({ preview }: { preview: Preview | undefined }) {
  const labels = useLabels();
  return (
    preview && (
      <figure data-part="preview">
        <figcaption>{labels.preview}</figcaption>
        <pre tabIndex={0}>
          <Visible text={preview.text} />
        </pre>
      </figure>
    )
  );
}

/** What an edit would lead to, while it is made. */
function LeadsTo({ editing: { state, found, error, retry } }: { editing: EditPreviewing }) {
  const labels = useLabels();
  const refused = error ?? found?.error;
  const said = refused ? labels.error(refused) : found && labels.leadsTo(found);
  return (
    <>
      {/* The preview is outside: it may be long, and is read when it is wanted. */}
      <p data-part="leads-to" data-outcome={found?.outcome} aria-live="polite" aria-busy={state === "asking"}>
        {state === "asking" ? labels.checking : said && <Visible text={said} />}
      </p>
      {state === "failed" && (
        <p data-part="buttons">
          <button type="button" onClick={retry}>
            {labels.again}
          </button>
        </p>
      )}
      <PreviewFigure preview={found?.preview} />
    </>
  );
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
            <pre data-part="shown">
              {decision?.type === "edit" ? visibleText(stringifyJson(decision.edited_action.args, 2)) : shownArgs(action)}
            </pre>
          </figure>
        );
      })}
    </Resolved>
  );
}

/** What a node of a graph, or a tool, asks: any JSON value is the answer. */
function ValueCard({ approval, onReply, className }: CardProps) {
  const labels = useLabels();
  const replying = useReply(approval, onReply);
  const [text, setText] = useDraft(draftKey(approval), () => "");
  const [problem, setProblem] = useState<string>();
  const id = useId();
  const submit = async () => {
    const read = readJson(text);
    if ("wrong" in read) return setProblem(`${labels.notJson}: ${read.wrong}`);
    setProblem(undefined);
    if (await replying.send({ resume: read.value })) setText(undefined);
  };
  return (
    <Frame approval={approval} replying={replying} className={className} problem={problem}>
      <Form replying={replying} onSubmit={() => void submit()}>
        {approval.actions.map((action, i) => (
          <pre key={i} data-part="shown" tabIndex={0}>
            {shownArgs(action)}
          </pre>
        ))}
        <p data-part="answer">
          <label htmlFor={id}>{labels.answer}</label>
          <textarea id={id} value={text} onChange={(e) => setText(e.target.value)} />
        </p>
      </Form>
    </Frame>
  );
}
