import { useId, type ReactNode } from "react";
import type { ApprovalView } from "@countersign/client";
import { visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { summarize } from "../approval/ResolvedLine.js";
import { ResolvedWhen } from "../approval/When.js";
import { Icon } from "../Icon.js";

/** Resolved questions: the questions and answers, who answered, or why there is no answer. */
export function ResolvedQuestion({ approval, children }: { approval: ApprovalView; children: ReactNode }) {
  const { t } = useI18n();
  const id = useId();
  const { text, tone, icon } = summarize(approval, t);
  return (
    <section className="resolved resolved-question" data-tone={tone} tabIndex={-1} aria-labelledby={id}>
      <p id={id} className="resolved-row">
        <span className="resolved-icon">
          <Icon name={icon} />
        </span>
        <span className="resolved-text">
          <strong>{text}</strong>
          {approval.by && <span className="muted"> {t("resolved.by", { name: visibleText(approval.by) })}</span>}
          <ResolvedWhen approval={approval} />
        </span>
      </p>
      <div className="resolved-body">{children}</div>
    </section>
  );
}
