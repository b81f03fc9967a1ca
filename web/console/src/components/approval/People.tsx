/** Who has to decide a request: its current step, how many have approved, and to whom it was handed. */
import { assigned, decidingRole, progress, type ApprovalView } from "@countersign/client";
import { visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { personName, roleName, type Bar } from "../../lib/people.js";
import { Icon } from "../Icon.js";

export function People({ approval, bar }: { approval: ApprovalView; bar: Bar | undefined }) {
  const { t } = useI18n();
  const config = approval.reviewConfigs[0] ?? {};
  const { level, levels } = config;
  const role = decidingRole(approval);
  const votes = progress(approval);
  const handed = approval.updates.findLast((u) => u.update === "reassigned");
  const person = assigned(approval).subject;
  const reminders = approval.updates.filter((u) => u.update === "reminder").length;
  const steps = level !== undefined && levels !== undefined && levels.length > 1;
  const notSelf = approval.reviewConfigs.some((c) => c.not_self) && role !== undefined;
  if (!steps && role === undefined && !votes && !handed && reminders === 0 && !approval.escalatedFrom && !bar) return null;

  return (
    <div className="people">
      {approval.escalatedFrom && (
        <p className="people-note">
          <Icon name="clock" />
          <span>{t("people.escalated", { role: roleName(role, t) })}</span>
        </p>
      )}
      <div className="people-line">
        <Icon name="people" />
        <strong>
          {steps ? t("people.step", { n: level, of: levels.length, role: roleName(role, t) }) : t("people.role", { role: roleName(role, t) })}
        </strong>
        {votes && (
          <span className="people-votes">
            <Dots approved={votes.approved} quorum={votes.quorum} />
            {votes.by.length > 0
              ? t("people.progressBy", { n: votes.approved, of: votes.quorum, names: votes.by.map((n) => visibleText(n)).join(t("text.list")) })
              : t("people.progress", { n: votes.approved, of: votes.quorum })}
          </span>
        )}
      </div>
      {steps && (
        <ol className="people-steps">
          {levels.map((name, i) => {
            // Of a call whose outcome is unknown the last level is asked first.
            const isDone = approval.kind === "in_doubt" ? i + 1 > level : i + 1 < level;
            const state = i + 1 === level ? "now" : isDone ? "done" : "next";
            return (
              <li key={name} data-state={state} aria-current={state === "now" ? "step" : undefined}>
                {state === "done" && <Icon name="check" />}
                <span>{roleName(state === "now" ? role : name, t)}</span>
                <span className="visually-hidden">
                  {t("text.colon")}
                  {t(`people.${state}`)}
                </span>
              </li>
            );
          })}
        </ol>
      )}
      {handed?.update === "reassigned" && (
        <p className="people-note">
          <Icon name="hand" />
          <span>
            {t(person === undefined ? "people.handedRole" : "people.handedPerson", {
              to: person === undefined ? roleName(role, t) : visibleText(person),
              by: personName(handed.by, t),
            })}
            {handed.text && <span className="muted"> “{visibleText(handed.text)}”</span>}
          </span>
        </p>
      )}
      {(bar || notSelf) && (
        <p className="people-note" data-bar={bar}>
          <Icon name="shield" />
          <span>{t(bar === undefined ? "people.notSelf" : `people.bar.${bar}`)}</span>
        </p>
      )}
      {reminders > 0 && <p className="hint">{t("people.reminded", { n: reminders })}</p>}
    </div>
  );
}

function Dots({ approved, quorum }: { approved: number; quorum: number }) {
  // Beyond a handful a number is clearer.
  if (quorum > 8) return null;
  return (
    <span className="people-dots" aria-hidden="true">
      {Array.from({ length: quorum }, (_, i) => (
        <span key={i} data-on={i < approved || undefined} />
      ))}
    </span>
  );
}
