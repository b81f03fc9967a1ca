import type { FormEvent, ReactNode } from "react";
import { decidingRole, progress, type ApprovalView } from "@countersign/client";
import { useCountersign } from "./context.js";
import type { Replying } from "./useReply.js";
import { visible } from "./visible.js";

interface Props {
  approval: ApprovalView;
  replying: Replying;
  className: string | undefined;
  /** What keeps it from being sent, in words for people. */
  problem: string | undefined;
  onSubmit: () => void;
  children: ReactNode;
  /** Buttons beside the one that sends. */
  buttons?: ReactNode;
}

/** What every card has: who decides, until when, what was entered, sending, and what came of that. */
export function Frame({ approval, replying, className, problem, onSubmit, children, buttons }: Props) {
  const { labels } = useCountersign();
  const votes = progress(approval);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onSubmit();
  };
  return (
    <form className={className} data-countersign="card" data-kind={approval.kind} data-state={replying.state} onSubmit={submit}>
      <p data-part="who">
        {labels.waitingFor(decidingRole(approval))}
        {votes && ` · ${labels.progress(votes.approved, votes.quorum)}`}
        {approval.expiresAt && (
          <>
            {" · "}
            {labels.until} <time dateTime={approval.expiresAt}>{new Date(approval.expiresAt).toLocaleString()}</time>
          </>
        )}
      </p>
      <fieldset disabled={replying.state !== "no"}>
        {children}
        <p data-part="buttons">
          <button type="submit">{labels.send}</button>
          {buttons}
        </p>
      </fieldset>
      <p role="status">{replying.state === "sending" ? labels.sending : replying.state === "sent" ? labels.sent : ""}</p>
      <p role="alert">{problem ?? messageOf(replying.error)}</p>
    </form>
  );
}

const messageOf = (error: unknown) => (error === undefined ? "" : error instanceof Error ? visible(error.message) : String(error));

/** What became of it, once that is known. */
export function Resolved({ approval, className, children }: { approval: ApprovalView; className: string | undefined; children?: ReactNode }) {
  const { labels } = useCountersign();
  return (
    <section className={className} data-countersign="resolved" data-resolution={approval.resolution}>
      <p>{visible(labels.resolved(approval))}</p>
      {children}
    </section>
  );
}
