import { useEffect, type CSSProperties, type ReactNode, type Ref } from "react";
import { decidingRole, progress } from "@countersign/client";
import { Refusal } from "./arguments/LeadsTo.js";
import { Problems } from "./arguments/Problems.js";
import { draftKey } from "./draftKey.js";
import { isLate } from "./ended.js";
import { momentText } from "./forms/dates.js";
import { useLabels, useTexts } from "./labels.js";
import type { FrameProps, ResolvedProps } from "./Request.js";
import { keepDraft } from "./useDraft.js";
import type { Replying } from "./useReply.js";
import { Visible } from "./Visible.js";

const UNPRESSED: CSSProperties = { pointerEvents: "none" };

/** The common parts of every card: who decides, until when, the input, and the result of sending it. */
export function Frame({ approval, replying, className, problem, problems = [], asked, children }: FrameProps) {
  const labels = useLabels();
  const { part } = useTexts();
  const { state, voted, settling, error } = replying;
  const votes = progress(approval);
  const said = state === "sending" ? labels.sending : state === "sent" ? labels.sent : voted && votes ? labels.voted : "";
  return (
    <section className={className} data-countersign="card" data-kind={approval.kind} data-state={state} style={settling ? UNPRESSED : undefined}>
      <p {...part("who")}>
        <Visible text={labels.waitingFor(decidingRole(approval))} />
        {votes && ` · ${labels.progress(votes.approved, votes.quorum)}`}
        {approval.expiresAt && (
          <>
            {" · "}
            {labels.until} <time dateTime={approval.expiresAt}>{momentText(approval.expiresAt, labels.language)}</time>
          </>
        )}
      </p>
      {asked}
      {children}
      <p role="status">{said}</p>
      <div role="alert">
        {problem ??
          (error && (
            <>
              <Refusal error={error} />
              <Problems problems={problems} />
            </>
          ))}
      </div>
    </section>
  );
}

interface FormProps {
  replying: Replying;
  onSubmit: () => void;
  formRef?: Ref<HTMLFormElement>;
  /** In place of the button that sends. */
  buttons?: ReactNode;
  children: ReactNode;
}

/** Fields that are sent together. */
export function Form({ replying, onSubmit, formRef, buttons, children }: FormProps) {
  const labels = useLabels();
  const { part } = useTexts();
  return (
    <form
      ref={formRef}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
    >
      <fieldset {...part("form")} disabled={replying.state !== "idle"}>
        {children}
        <p {...part("buttons")}>
          {buttons ?? (
            <button type="submit" {...part("send")}>
              {labels.send}
            </button>
          )}
        </p>
      </fieldset>
    </form>
  );
}

/**
 * How the request ended, once that is known; and a notice that a reply of this tab came too late, until it has been
 * read.
 */
export function Resolved({ approval, replying, className, children }: ResolvedProps) {
  const labels = useLabels();
  const { part } = useTexts();
  const late = isLate(replying.error);
  const key = draftKey(approval);
  // The input belongs to no pending request any more.
  useEffect(() => {
    if (late) keepDraft(key, undefined);
  }, [late, key]);
  const how = (
    <p>
      <Visible text={labels.resolved(approval)} />
    </p>
  );
  return (
    <section className={className} data-countersign="resolved" data-resolution={approval.resolution} style={replying.settling ? UNPRESSED : undefined}>
      {late ? (
        <div {...part("late")}>
          <div role="alert">
            <p>{labels.late}</p>
            {how}
          </div>
          <button type="button" {...part("dismiss")} onClick={replying.clearError}>
            {labels.dismiss}
          </button>
        </div>
      ) : (
        how
      )}
      {children}
    </section>
  );
}
