/**
 * A request for a decision.
 *
 * One action is decided with one press. Several are decided one by one and sent together, because the
 * server applies a set of decisions as a whole. What was entered is kept until the request is resolved,
 * whatever happens in between: errors, lost connections, reloads.
 */
import { useCallback, useState, type KeyboardEvent } from "react";
import { decidingRole, progress, type ApprovalView, type DecisionType } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import {
  actionIndexOf,
  allowedOf,
  argumentOf,
  configOf,
  emptyAction,
  emptyCard,
  isYes,
  needsSight,
  problemsOf,
  toDecision,
  type ActionDraft,
  type CardDraft,
} from "../../lib/decisions.js";
import type { Bar } from "../../lib/people.js";
import { isLongText, textOf } from "../../lib/shown.js";
import { visibleText } from "../../lib/visible.js";
import { useTabState } from "../../lib/useTabState.js";
import { useMe, useOwns } from "../../state/me.js";
import { ActionPanel } from "./ActionPanel.js";
import { CardFrame } from "./CardFrame.js";
import { Comment } from "./Comment.js";
import { People } from "./People.js";
import type { Submission } from "./useSubmit.js";

export function DecisionCard({ approval, submission }: { approval: ApprovalView; submission: Submission }) {
  const { t } = useI18n();
  const [draft, setDraft] = useTabState<CardDraft>(`card:${approval.approvalKey}`, () =>
    emptyCard(approval.actions.length),
  );
  const { error } = submission;
  // Not kept over a reload: whoever comes back looks again.
  const [seen, setSeen] = useState<readonly number[]>([]);
  const onSeen = useCallback((i: number) => setSeen((s) => (s.includes(i) ? s : [...s, i])), []);
  const isSeen = (i: number) => seen.includes(i) || !isLongText(textOf(approval.actions[i]!));
  const allSeen = approval.actions.every((_, i) => isSeen(i));
  const single = approval.actions.length === 1;
  const busy = submission.state !== "no";

  const bar = useBar(approval, submission);
  const barred = (choice: DecisionType) => bar !== undefined && isYes(choice);

  const draftOf = (i: number): ActionDraft => draft.actions[i] ?? emptyAction;
  const withAction = (i: number, next: ActionDraft): CardDraft => ({
    ...draft,
    actions: approval.actions.map((_, j) => (j === i ? next : draftOf(j))),
  });
  const decisionsFrom = (from: CardDraft) =>
    approval.actions.map((action, i) => toDecision(action, configOf(approval, i), from.actions[i] ?? emptyAction));

  const submitAll = async (from: CardDraft) => {
    const decisions = decisionsFrom(from);
    if (busy || !decisions.every((d) => d !== undefined)) return;
    if (decisions.some((d, i) => barred(d.type) || (needsSight(d.type) && !isSeen(i)))) return;
    const comment = draft.comment.trim();
    const words = comment && draft.commentOpen ? { user_edit_content: comment } : {};
    // Once it is stored, nothing is left to restore.
    if (!(await submission.submit({ decisions, ...words }))) return;
    setDraft(progress(approval) ? emptyCard(approval.actions.length) : undefined);
  };
  const decideEvery = (choice: DecisionType) =>
    void submitAll({ ...draft, actions: approval.actions.map((_, i) => plain(draftOf(i), choice)) });
  const everyAllows = (choice: DecisionType) =>
    approval.actions.every((_, i) => allowedOf(configOf(approval, i)).includes(choice));

  const press = (i: number, choice: DecisionType | undefined) => {
    const next = withAction(i, plain(draftOf(i), choice));
    if (single && (choice === "approve" || choice === "defer")) void submitAll(next);
    else setDraft(next);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || event.nativeEvent.isComposing || busy) return;
    if (event.key === "Escape" && single && (draftOf(0).choice || draftOf(0).alwaysDraft)) {
      return press(0, undefined);
    }
    if (!single || target.closest("input, textarea, select")) return;
    const choice = ({ a: "approve", r: "reject", e: "edit" } as const)[event.key.toLowerCase()];
    // Once a panel is open, its own button decides: a stray key must not send something else.
    if (!choice || draftOf(0).choice || draftOf(0).alwaysDraft || barred(choice) || !allowedOf(configOf(approval, 0)).includes(choice)) return;
    if (needsSight(choice) && !allSeen) return;
    event.preventDefault();
    press(0, choice === "edit" || choice === "reject" ? choice : "approve");
  };

  // What the server found wrong is about the text as it was sent: typing takes it back.
  const onDraft = (i: number, next: ActionDraft) => {
    if (error?.code === "invalid_edit" && next.edit !== draftOf(i).edit) submission.clearError();
    setDraft(withAction(i, next));
  };

  const problems = error?.code === "invalid_edit" ? problemsOf(error.details) : [];
  const decided = decisionsFrom(draft).filter(Boolean).length;

  return (
    <CardFrame
      approval={approval}
      submission={submission}
      problems={problems.map((p) => ({ what: argumentOf(p.pointer), message: p.message }))}
      onKeyDown={onKeyDown}
    >
      <People approval={approval} bar={bar} />
      {approval.kind === "in_doubt" && (
        <p className="card-text">
          {approval.step
            ? t("card.inDoubtStep", { step: visibleText(approval.step.name), node: visibleText(approval.step.node) })
            : t("card.inDoubtText")}
        </p>
      )}
      {approval.actions.map((action, i) => (
        <ActionPanel
          key={action.id ?? i}
          approval={approval}
          action={action}
          index={i}
          draft={draftOf(i)}
          disabled={busy}
          seen={isSeen(i)}
          onSeen={onSeen}
          problems={problems.filter((p) => (actionIndexOf(p.pointer, error?.message) ?? (single ? 0 : i)) === i)}
          onDraft={(next) => onDraft(i, next)}
          onPress={(choice) => press(i, choice)}
          onSend={() => void submitAll(draft)}
          barred={barred}
          onAlways={(next) => {
            if (single) void submitAll(withAction(i, next));
            else setDraft(withAction(i, next));
          }}
        />
      ))}
      <Comment draft={draft} disabled={busy} onChange={setDraft} />
      {!single && (
        <div className="card-foot">
          <span className="hint">
            <span className="words">{t("decide.decided", { n: decided, of: approval.actions.length })}</span>
            <span className="phone-only" aria-hidden="true">
              {decided}/{approval.actions.length}
            </span>
          </span>
          <div className="buttons">
            {everyAllows("reject") && (
              <button type="button" className="button danger" disabled={busy} onClick={() => decideEvery("reject")}>
                {t("decide.rejectAll")}
              </button>
            )}
            {everyAllows("approve") && (
              <button
                type="button"
                className="button"
                disabled={busy || !allSeen || barred("approve")}
                onClick={() => decideEvery("approve")}
              >
                {t("decide.approveAll")}
              </button>
            )}
            <button
              type="button"
              className="button primary"
              disabled={busy || decided < approval.actions.length}
              onClick={() => void submitAll(draft)}
            >
              {t("decide.send")}
            </button>
          </div>
        </div>
      )}
    </CardFrame>
  );
}

/** A choice for this call only. */
function plain(draft: ActionDraft, choice: DecisionType | undefined): ActionDraft {
  const { always: _always, alwaysDraft: _form, choice: _choice, ...rest } = draft;
  return choice === undefined ? rest : { ...rest, choice };
}

/** Why this person may not say yes, where that is known. The server refuses it in any case. */
function useBar(approval: ApprovalView, { voted }: Submission): Bar | undefined {
  const owns = useOwns(approval.sessionId);
  const me = useMe();
  const votes = progress(approval);
  if (approval.reviewConfigs.some((c) => c.not_self) && decidingRole(approval) !== undefined && owns) return "asked";
  if (votes && (voted || (me !== undefined && votes.by.includes(me)))) return "voted";
  return undefined;
}
