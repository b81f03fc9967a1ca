/**
 * A request for a decision.
 *
 * One action is decided with one press. Several are decided one by one and sent together, because the
 * server applies a set of decisions as a whole. What was entered is kept until the request is resolved,
 * whatever happens in between: errors, lost connections, reloads.
 */
import { useEffect, useId, useRef, useState, type KeyboardEvent } from "react";
import type { ApprovalView, CountersignError, Decision, DecisionType } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { announce } from "../../lib/announce.js";
import {
  actionIndexOf,
  allowedOf,
  argumentOf,
  configOf,
  emptyAction,
  emptyCard,
  problemsOf,
  toDecision,
  type ActionDraft,
  type CardDraft,
} from "../../lib/decisions.js";
import { useTabState } from "../../lib/useTabState.js";
import { client, connectionState } from "../../state/connection.js";
import { asRefusal } from "../../state/sessions.js";
import { useStore } from "../../state/store.js";
import { errorText } from "../errorText.js";
import { Icon } from "../Icon.js";
import { QuestionForm } from "../QuestionForm.js";
import { ActionPanel } from "./ActionPanel.js";
import { Comment } from "./Comment.js";
import { Countdown } from "./Countdown.js";
import { cardId, takeFocus } from "./focus.js";
import { ResolvedLine, summarize } from "./ResolvedLine.js";
import { cardTitle, toolNames } from "./title.js";

type Sending = "no" | "sending" | "stored";

export function ApprovalCard({ approval }: { approval: ApprovalView }) {
  const { t } = useI18n();
  const box = useRef<HTMLDivElement>(null);
  const hadFocus = useRef(false);
  const resolved = approval.resolution !== undefined;
  const wasWaiting = useRef(!resolved);

  // A resolved card is replaced by one line: the focus must not fall out of the page with its buttons.
  // The decisions themselves follow a moment after the news that it is resolved.
  const settled = resolved && (approval.resolution !== "decided" || !!approval.decisions || approval.kind === "question");
  useEffect(() => {
    if (!settled || !wasWaiting.current) return;
    wasWaiting.current = false;
    announce(t("card.announceResolved", { tool: toolNames(approval), result: summarize(approval, t).text }));
    if (hadFocus.current) box.current?.querySelector<HTMLElement>("button")?.focus();
  }, [settled, approval, t]);

  useEffect(() => takeFocus(approval.approvalKey), [approval.approvalKey]);

  return (
    <div
      ref={box}
      onFocus={() => (hadFocus.current = true)}
      onBlur={(e) => {
        // Removing the focused button blurs it with no new target; only a real move counts.
        if (e.relatedTarget && !box.current?.contains(e.relatedTarget)) hadFocus.current = false;
      }}
    >
      {resolved ? <ResolvedLine approval={approval} /> : approval.complete && <WaitingCard approval={approval} />}
    </div>
  );
}

function WaitingCard({ approval }: { approval: ApprovalView }) {
  const { t } = useI18n();
  const id = useId();
  const online = useStore(connectionState) === "open";
  const [draft, setDraft] = useTabState<CardDraft>(`card:${approval.approvalKey}`, () =>
    emptyCard(approval.actions.length),
  );
  const [sending, setSending] = useState<Sending>("no");
  const [error, setError] = useState<CountersignError>();
  const errorBox = useRef<HTMLDivElement>(null);
  // The button that was pressed stays in view by itself; the answer to it must be brought there.
  useEffect(() => void errorBox.current?.scrollIntoView({ block: "nearest" }), [error]);
  const single = approval.actions.length === 1;
  const busy = sending !== "no";

  const draftOf = (i: number): ActionDraft => draft.actions[i] ?? emptyAction;
  const withAction = (i: number, next: ActionDraft): CardDraft => ({
    ...draft,
    actions: approval.actions.map((_, j) => (j === i ? next : draftOf(j))),
  });
  const decisionsFrom = (from: CardDraft) =>
    approval.actions.map((action, i) => toDecision(action, configOf(approval, i), from.actions[i] ?? emptyAction));

  const submit = async (content: { decisions: Decision[] } | { answers: Record<string, string> }) => {
    setSending("sending");
    setError(undefined);
    const comment = draft.comment.trim();
    try {
      await client.sendApproval({
        session_id: approval.sessionId,
        approval_key: approval.approvalKey,
        ...content,
        ...(comment && draft.commentOpen ? { user_edit_content: comment } : {}),
      });
      setDraft(undefined); // Nothing is left to restore.
      setSending("stored");
    } catch (e) {
      setError(asRefusal(e));
      setSending("no");
    }
  };

  const submitAll = (from: CardDraft) => {
    const decisions = decisionsFrom(from);
    if (!busy && decisions.every((d) => d !== undefined)) void submit({ decisions });
  };
  const decideEvery = (choice: DecisionType) =>
    submitAll({ ...draft, actions: approval.actions.map((_, i) => ({ ...draftOf(i), choice })) });
  const everyAllows = (choice: DecisionType) =>
    approval.actions.every((_, i) => allowedOf(configOf(approval, i)).includes(choice));

  const press = (i: number, choice: DecisionType | undefined) => {
    const next = withAction(i, { ...draftOf(i), choice });
    if (single && (choice === "approve" || choice === "defer")) submitAll(next);
    else setDraft(next);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || event.nativeEvent.isComposing || busy) return;
    if (event.key === "Escape" && single && draftOf(0).choice) {
      return press(0, undefined);
    }
    if (!single || target.closest("input, textarea, select")) return;
    const choice = ({ a: "approve", r: "reject", e: "edit" } as const)[event.key.toLowerCase()];
    // Once a panel is open, its own button decides: a stray key must not send something else.
    if (!choice || draftOf(0).choice || !allowedOf(configOf(approval, 0)).includes(choice)) return;
    event.preventDefault();
    press(0, choice === "edit" || choice === "reject" ? choice : "approve");
  };

  // What the server found wrong is about the text as it was sent: typing takes it back.
  const onDraft = (i: number, next: ActionDraft) => {
    if (error?.code === "invalid_edit" && next.edit !== draftOf(i).edit) setError(undefined);
    setDraft(withAction(i, next));
  };

  const problems = error?.code === "invalid_edit" ? problemsOf(error.details) : [];
  const decided = decisionsFrom(draft).filter(Boolean).length;
  const totalSeconds = approval.timeoutSeconds ?? shortestTimeout(approval);
  const question = approval.kind === "question";

  return (
    <section
      id={cardId(approval.approvalKey)}
      className="card"
      data-kind={approval.kind}
      tabIndex={-1}
      aria-labelledby={`${id}-title`}
      aria-busy={sending === "sending" || undefined}
      onKeyDown={onKeyDown}
    >
      <header className="card-head">
        <span className="card-icon">
          <Icon name={question ? "question" : approval.kind === "in_doubt" ? "warning" : "shield"} />
        </span>
        <h2 id={`${id}-title`}>{cardTitle(approval, t)}</h2>
        {!approval.expiresAt && !totalSeconds && <span className="hint">{t("time.forever")}</span>}
      </header>
      {approval.expiresAt && (
        <Countdown expiresAt={approval.expiresAt} totalSeconds={totalSeconds} tool={toolNames(approval)} />
      )}
      {approval.kind === "in_doubt" && <p className="card-text">{t("card.inDoubtText")}</p>}

      {question ? (
        <QuestionForm
          approval={approval}
          disabled={busy}
          onAnswers={(answers) => void submit({ answers })}
          onDecline={() => void submit({ decisions: [{ type: "reject" }] })}
        />
      ) : (
        approval.actions.map((action, i) => (
          <ActionPanel
            key={action.id ?? i}
            approval={approval}
            action={action}
            index={i}
            draft={draftOf(i)}
            disabled={busy}
            problems={problems.filter((p) => (actionIndexOf(p.pointer, error?.message) ?? (single ? 0 : i)) === i)}
            onDraft={(next) => onDraft(i, next)}
            onPress={(choice) => press(i, choice)}
            onSend={() => submitAll(draft)}
          />
        ))
      )}

      {!question && <Comment draft={draft} disabled={busy} onChange={setDraft} />}

      {!single && !question && (
        <div className="card-foot">
          <span className="hint">{t("decide.decided", { n: decided, of: approval.actions.length })}</span>
          <div className="buttons">
            {everyAllows("reject") && (
              <button type="button" className="button danger" disabled={busy} onClick={() => decideEvery("reject")}>
                {t("decide.rejectAll")}
              </button>
            )}
            {everyAllows("approve") && (
              <button type="button" className="button" disabled={busy} onClick={() => decideEvery("approve")}>
                {t("decide.approveAll")}
              </button>
            )}
            <button
              type="button"
              className="button primary"
              disabled={busy || decided < approval.actions.length}
              onClick={() => submitAll(draft)}
            >
              {t("decide.send")}
            </button>
          </div>
        </div>
      )}

      {error && (
        <div ref={errorBox} className="card-error" role="alert">
          <Icon name="warning" />
          <div>
            <p>{errorText(error, t)}</p>
            {problems.length > 0 && (
              <ul>
                {problems.map((p) => (
                  <li key={p.pointer + p.message}>
                    {argumentOf(p.pointer) && <code>{argumentOf(p.pointer)}</code>} {p.message}
                  </li>
                ))}
              </ul>
            )}
          </div>
        </div>
      )}
      {busy && (
        <p className="card-sending" role="status">
          {sending === "stored" ? t("decide.stored") : t(online ? "decide.sending" : "decide.sendingOffline")}
        </p>
      )}
    </section>
  );
}

/** The deadline of a request is the smallest of its actions' timeouts that is not 0. */
function shortestTimeout(approval: ApprovalView): number | undefined {
  const all = approval.reviewConfigs.map((c) => c.timeout ?? 0).filter((s) => s > 0);
  return all.length > 0 ? Math.min(...all) : undefined;
}
