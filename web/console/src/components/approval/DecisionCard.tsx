/**
 * A request for a decision.
 *
 * One action is decided with one press. Several are decided one by one and sent together, because the
 * server applies a set of decisions as a whole. What was entered is kept until the request is resolved,
 * whatever happens in between: errors, lost connections, reloads.
 */
import { useCallback, useState, type KeyboardEvent } from "react";
import { allowedOf, configOf, progress, type ApprovalView, type Decision, type DecisionType } from "@countersign/client";
import { fieldErrorText, shownArgs, useDraft, visibleText, type Replying } from "@countersign/react";
import { argumentOf, editedArgs, isLongText, needsSight, refusedEdits } from "@countersign/react/forms";
import { useI18n } from "../../i18n/index.js";
import { emptyAction, emptyCard, toDecision, type ActionDraft, type CardDraft } from "../../lib/decisions.js";
import { isBarred } from "../../lib/people.js";
import { draftKeys } from "../../lib/unsent.js";
import { useBar } from "../../state/me.js";
import { ActionPanel } from "./ActionPanel.js";
import { CardFrame } from "./CardFrame.js";
import { Comment } from "./Comment.js";
import { People } from "./People.js";

export function DecisionCard({ approval, submission }: { approval: ApprovalView; submission: Replying }) {
  const { t } = useI18n();
  const [draft, setDraft] = useDraft<CardDraft>(draftKeys(approval).reply, () =>
    emptyCard(approval.actions.length),
  );
  const { error } = submission;
  // Not kept over a reload: whoever comes back looks again.
  const [seen, setSeen] = useState<readonly number[]>([]);
  const onSeen = useCallback((i: number) => setSeen((s) => (s.includes(i) ? s : [...s, i])), []);
  const isSeen = (i: number) => seen.includes(i) || !isLongText(shownArgs(approval.actions[i]!));
  const allSeen = approval.actions.every((_, i) => isSeen(i));
  const single = approval.actions.length === 1;
  const busy = submission.state !== "no";

  const known = useBar(approval);
  // In a tab without a name, too.
  const bar = known ?? (submission.voted && progress(approval) ? "voted" : undefined);
  const others = bar === "role";
  const barred = (choice: DecisionType) => isBarred(bar, choice);

  const draftOf = (i: number): ActionDraft => draft.actions[i] ?? emptyAction;
  const withAction = (i: number, next: ActionDraft): CardDraft => ({
    ...draft,
    actions: approval.actions.map((_, j) => (j === i ? next : draftOf(j))),
  });
  const decisionsFrom = (from: CardDraft) =>
    approval.actions.map((action, i) => toDecision(action, configOf(approval, i), from.actions[i] ?? emptyAction));

  const maySend = (decision: Decision | undefined, i: number): decision is Decision =>
    decision !== undefined && !barred(decision.type) && (!needsSight(decision.type) || isSeen(i));

  const submitAll = async (from: CardDraft) => {
    const decisions = decisionsFrom(from);
    if (busy || others || !decisions.every(maySend)) return;
    const comment = draft.comment.trim();
    const words = comment && draft.commentOpen ? { user_edit_content: comment } : {};
    // Once it is stored, nothing is left to restore.
    if (!(await submission.send({ decisions, ...words }))) return;
    setDraft(progress(approval) ? emptyCard(approval.actions.length) : undefined);
  };
  const decideEvery = (choice: DecisionType) =>
    // What was decided so already stays as it is, with its reason and what is to hold for later calls.
    void submitAll({ ...draft, actions: approval.actions.map((_, i) => (draftOf(i).choice === choice ? draftOf(i) : plain(draftOf(i), choice))) });
  // A call that somebody has begun to decide otherwise must not run as it was proposed.
  const someOther = approval.actions.some((_, i) => {
    const { choice, alwaysDraft } = draftOf(i);
    return alwaysDraft !== undefined || (choice !== undefined && choice !== "approve");
  });
  const everyAllows = (choice: DecisionType) =>
    approval.actions.every((_, i) => allowedOf(configOf(approval, i)).includes(choice));

  const press = (i: number, choice: DecisionType | undefined) => {
    const next = withAction(i, plain(draftOf(i), choice));
    if (single && (choice === "approve" || choice === "defer")) void submitAll(next);
    else setDraft(next);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    if (others || event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.nativeEvent.isComposing || busy) return;
    const at = actionAt(target) ?? (single ? 0 : approval.actions.findIndex((_, i) => draftOf(i).choice === undefined));
    const { choice: chosen, alwaysDraft } = draftOf(at);
    if (event.key === "Escape" && (chosen || alwaysDraft)) {
      event.preventDefault();
      press(at, undefined);
      if (!single) focusAction(event.currentTarget, at);
      return;
    }
    if (at < 0 || target.closest("input, textarea, select")) return;
    const choice = ({ a: "approve", r: "reject", e: "edit" } as const)[event.key.toLowerCase()];
    // Once a panel is open, its own button decides: a stray key must not send something else.
    if (!choice || alwaysDraft || (single && chosen) || barred(choice) || !allowedOf(configOf(approval, at)).includes(choice)) return;
    if (needsSight(choice) && !isSeen(at)) return;
    event.preventDefault();
    press(at, choice);
    if (!single && choice === "approve") focusAction(event.currentTarget, nextOpen(at));
  };
  /** The next action without a decision, once this one has one; none if it was the last. */
  const nextOpen = (at: number): number | undefined => {
    const order = approval.actions.map((_, i) => (at + 1 + i) % approval.actions.length);
    return order.find((i) => i !== at && draftOf(i).choice === undefined);
  };

  // What the server found wrong is about the text as it was sent: typing takes it back.
  const onDraft = (i: number, next: ActionDraft) => {
    if (error?.code === "invalid_edit" && next.edit !== draftOf(i).edit) submission.clearError();
    setDraft(withAction(i, next));
  };

  const problems = refusedEdits(error, approval, (i) => editedArgs(approval.actions[i]!, configOf(approval, i), draftOf(i).edit));
  const drafted = decisionsFrom(draft);

  return (
    <CardFrame
      approval={approval}
      submission={submission}
      problems={problems.map((p) => ({ what: argumentOf(p.pointer), message: p.message, own: p.error && fieldErrorText(p.error, t) }))}
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
          readOnly={others}
          seen={isSeen(i)}
          onSeen={onSeen}
          problems={problems.filter((p) => (p.index ?? i) === i)}
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
      {!others && <Comment draft={draft} disabled={busy} onChange={setDraft} />}
      {!single && !others && (
        <div className="card-foot">
          <span className="hint">
            <span className="words">{t("decide.decided", { n: drafted.filter(Boolean).length, of: approval.actions.length })}</span>
            <span className="phone-only" aria-hidden="true">
              {drafted.filter(Boolean).length}/{approval.actions.length}
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
                disabled={busy || !allSeen || someOther || barred("approve")}
                onClick={() => decideEvery("approve")}
              >
                {t("decide.approveAll")}
              </button>
            )}
            <button
              type="button"
              className="button primary"
              disabled={busy || !drafted.every(maySend)}
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

/** The action that an element is in. */
function actionAt(element: HTMLElement): number | undefined {
  const at = element.closest<HTMLElement>("[data-action]")?.dataset.action;
  return at === undefined ? undefined : Number(at);
}

/** On to an action, or, where none is open, to what sends them. */
function focusAction(card: Element, at: number | undefined): void {
  // After the buttons are drawn, since that of sending was disabled until now.
  requestAnimationFrame(() =>
    card.querySelector<HTMLElement>(at === undefined ? ".card-foot .button.primary" : `[data-action="${at}"]`)?.focus(),
  );
}

/** A choice for this call only. */
function plain(draft: ActionDraft, choice: DecisionType | undefined): ActionDraft {
  const { always: _always, alwaysDraft: _form, choice: _choice, ...rest } = draft;
  return choice === undefined ? rest : { ...rest, choice };
}
