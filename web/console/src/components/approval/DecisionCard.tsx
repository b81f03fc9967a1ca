/**
 * A request for a decision.
 *
 * One action is decided with one press. Several are decided one by one and sent together, because the server applies a
 * set of decisions as a whole. The input is kept until the request is resolved, whatever happens in between: errors,
 * lost connections, reloads.
 */
import type { KeyboardEvent } from "react";
import { allowedOf, configOf, progress, type DecisionType } from "@countersign/client";
import { useDecisions, visibleText, type PendingProps } from "@countersign/react";
import { needsSight } from "@countersign/react/forms";
import { useI18n } from "../../i18n/index.js";
import { composes } from "../../lib/composes.js";
import type { ActionDraft } from "../../lib/decisions.js";
import { isBarred } from "../../lib/people.js";
import { useBar } from "../../state/bar.js";
import { keysOn } from "../../state/keys.js";
import { ActionPanel } from "./ActionPanel.js";
import { CardFrame, Sending } from "./CardFrame.js";
import { Comment } from "./Comment.js";
import { People } from "./People.js";

export function DecisionCard({ approval, replying }: PendingProps) {
  const { t } = useI18n();
  const known = useBar(approval);
  // In a tab without a name, too.
  const bar = known ?? (replying.voted && progress(approval) ? "voted" : undefined);
  const others = bar === "role";
  const barred = (choice: DecisionType) => isBarred(bar, choice);
  const deciding = useDecisions<ActionDraft>({ approval, replying, barred });
  const { calls, isSeen, lacks, send } = deciding;
  const single = approval.actions.length === 1;
  const busy = replying.state !== "idle";
  const allSeen = calls.every((_, i) => isSeen(i));

  const decideEvery = (choice: DecisionType) =>
    // Calls already decided this way stay as they are, with their reason and any standing rule.
    void send(calls.map((call) => (call.choice === choice ? call : plain(call, choice))));
  // A call that the person has begun to decide otherwise must not run as proposed.
  const someOther = calls.some(({ choice, alwaysDraft }) => alwaysDraft !== undefined || (choice !== undefined && choice !== "approve"));
  const everyAllows = (choice: DecisionType) =>
    approval.actions.every((_, i) => allowedOf(configOf(approval, i)).includes(choice));

  const press = (i: number, choice: DecisionType | undefined) => {
    const next = plain(calls[i]!, choice);
    if (single && (choice === "approve" || choice === "defer")) void send([next]);
    else deciding.setCall(i, next);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    if (others || event.repeat || event.ctrlKey || event.metaKey || event.altKey || composes(event) || busy) return;
    const at = actionAt(target) ?? (single ? 0 : calls.findIndex(({ choice }) => choice === undefined));
    const { choice: chosen, alwaysDraft } = calls[at] ?? {};
    if (event.key === "Escape" && (chosen || alwaysDraft)) {
      event.preventDefault();
      press(at, undefined);
      if (!single) focusAction(event.currentTarget, at);
      return;
    }
    if (at < 0 || !keysOn.get() || target.closest("input, textarea, select")) return;
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
    const order = calls.map((_, i) => (at + 1 + i) % calls.length);
    return order.find((i) => i !== at && calls[i]!.choice === undefined);
  };

  const decided = deciding.decisions.filter(Boolean).length;
  const sending = <Sending approval={approval} replying={replying} />;
  return (
    <CardFrame approval={approval} replying={replying} problems={deciding.problems} onKeyDown={onKeyDown} saysItself={!others}>
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
          draft={calls[i]!}
          lack={lacks(i)}
          disabled={busy}
          sending={single && sending}
          readOnly={others}
          seen={isSeen(i)}
          onSeen={deciding.onSeen}
          problems={deciding.problemsOf(i)}
          onDraft={(next) => deciding.setCall(i, next)}
          onPress={(choice) => press(i, choice)}
          onSend={() => void send()}
          barred={barred}
          onAlways={(next) => {
            if (single) void send([next]);
            else deciding.setCall(i, next);
          }}
        />
      ))}
      {!others && !approval.step && <Comment comment={deciding.comment} disabled={busy} onChange={deciding.setComment} />}
      {!single && !others && (
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
                disabled={busy || !allSeen || someOther || barred("approve")}
                title={allSeen ? undefined : t("shown.long")}
                onClick={() => decideEvery("approve")}
              >
                {t("decide.approveAll")}
              </button>
            )}
            <button
              type="button"
              className="button primary"
              disabled={busy || calls.some((_, i) => lacks(i) !== undefined)}
              onClick={() => void send()}
            >
              {t("decide.send")}
            </button>
          </div>
          {sending}
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

/** Moves the focus to an action, or, if none is open, to the button that sends them. */
function focusAction(card: Element, at: number | undefined): void {
  // After the buttons are rendered, since the one for sending was disabled until now.
  requestAnimationFrame(() =>
    card.querySelector<HTMLElement>(at === undefined ? ".card-foot .button.primary" : `[data-action="${at}"]`)?.focus(),
  );
}

/** A choice for this call only. */
function plain(draft: ActionDraft, choice: DecisionType | undefined): ActionDraft {
  const { always: _always, alwaysDraft: _form, choice: _choice, ...rest } = draft;
  return choice === undefined ? rest : { ...rest, choice };
}
