import { useId } from "react";
import type { ApprovalView } from "@countersign/client";
import { Asked, visibleText } from "@countersign/react";
import { elicitationOf, elicitationResultOf } from "@countersign/react/forms";
import { useI18n } from "../../i18n/index.js";
import { shortAnswer, summarize } from "../approval/ResolvedLine.js";
import { subjectOf } from "../approval/title.js";
import { ResolvedWhen } from "../approval/When.js";
import { Icon } from "../Icon.js";
import { hasContent, Payload, Plain } from "./Payload.js";

/** The question of a graph's node, its answer and author, or why there is no answer. */
export function ResolvedInterrupt({ approval }: { approval: ApprovalView }) {
  const { t } = useI18n();
  const id = useId();
  const { text, tone, icon } = summarize(approval, t);
  const action = approval.actions[0];
  const { resume, interrupt } = approval;
  const asked = elicitationOf(approval);
  const outcome = asked && elicitationResultOf(asked, resume);
  // A short answer is shown in the line.
  const answer = outcome ? outcome.content : shortAnswer(resume, t) === undefined ? resume : undefined;
  return (
    <section className="resolved resolved-question" data-tone={tone} tabIndex={-1} aria-labelledby={id}>
      <p id={id} className="resolved-row">
        <span className="resolved-icon">
          <Icon name={icon} />
        </span>
        <span className="resolved-text">
          <strong>{text}</strong> <code>{asked ? visibleText(asked.from) : subjectOf(approval, t)}</code>
          {approval.by && <span className="muted"> {t("resolved.by", { name: visibleText(approval.by) })}</span>}
          <ResolvedWhen approval={approval} />
        </span>
      </p>
      <div className="resolved-body">
        {answer !== undefined && (!outcome || hasContent(answer)) && <Plain value={answer} label={t("resolved.answered")} />}
        {action && hasContent(interrupt?.payload) && (
          <details className="asked">
            <summary>{t("interrupt.asked")}</summary>
            {asked ? <Asked approval={approval} asked={asked} /> : <Payload action={action} payload={interrupt?.payload} />}
          </details>
        )}
      </div>
    </section>
  );
}
