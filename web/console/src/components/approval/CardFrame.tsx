/**
 * The frame of every pending request: its heading, its deadline, people's comments, and the state of sending the reply.
 */
import { useContext, useEffect, useId, useRef, type KeyboardEvent, type ReactNode } from "react";
import { asksForValue, isAnswered, type ApprovalView } from "@countersign/client";
import { Problems, useConnection, type FrameProps } from "@countersign/react";
import { elicitationOf } from "@countersign/react/forms";
import { useI18n } from "../../i18n/index.js";
import { TurnFailed } from "../../lib/turnFailed.js";
import { useFocusBack } from "../../lib/useFocusBack.js";
import { Icon } from "../Icon.js";
import { Refusal } from "../Refusal.js";
import { Countdown } from "./Countdown.js";
import { Discussion } from "./Discussion.js";
import { cardId } from "./focus.js";
import { cardTitle, subjectOf } from "./title.js";
import { AskedLine } from "./When.js";

interface Props extends Pick<FrameProps, "approval" | "replying" | "problems"> {
  onKeyDown?: (event: KeyboardEvent) => void;
  /** Whether its buttons stay in view, with the state of sending beside them. */
  saysItself?: boolean;
  children: ReactNode;
}

export function CardFrame({ approval, replying, problems = [], onKeyDown, saysItself, children }: Props) {
  const { t } = useI18n();
  const id = useId();
  const failed = useContext(TurnFailed);
  const { state, error } = replying;
  useFocusBack(state !== "idle");
  const errorBox = useRef<HTMLDivElement>(null);
  // The pressed button stays in view by itself; its result must be scrolled there.
  useEffect(() => void errorBox.current?.scrollIntoView({ block: "nearest" }), [error]);

  const totalSeconds = approval.timeoutSeconds ?? shortestTimeout(approval);
  const question = isAnswered(approval);
  return (
    <section
      id={cardId(approval.approvalKey)}
      className="card"
      data-kind={approval.kind}
      tabIndex={-1}
      aria-labelledby={`${id}-title`}
      aria-busy={state === "sending" || undefined}
      onKeyDown={onKeyDown}
    >
      <header className="card-head">
        <span className="card-icon">
          <Icon name={question ? "question" : approval.kind === "in_doubt" ? "warning" : "shield"} />
        </span>
        <h2 id={`${id}-title`}>{cardTitle(approval, t)}</h2>
        {!approval.expiresAt && !totalSeconds && <span className="hint">{t("time.forever")}</span>}
      </header>
      <AskedLine approval={approval} />
      {approval.expiresAt && (
        <Countdown
          expiresAt={approval.expiresAt}
          totalSeconds={totalSeconds}
          after={t(elicitationOf(approval) ? "elicit.after" : asksForValue(approval) ? "interrupt.after" : question ? "time.goesOn" : "time.rejects")}
          subject={subjectOf(approval, t)}
        />
      )}
      {failed && <p className="card-text hint">{t(question ? "card.failedQuestion" : "card.failed")}</p>}
      {children}
      {error && (
        <div ref={errorBox} className="card-error" role="alert">
          <Icon name="warning" />
          <div>
            <Refusal error={error} />
            <Problems problems={problems} />
          </div>
        </div>
      )}
      {!saysItself && <Sending approval={approval} replying={replying} />}
      <Discussion approval={approval} />
    </section>
  );
}

/** The state of sending the reply; nothing before that. */
export function Sending({ approval, replying: { state } }: Pick<FrameProps, "approval" | "replying">) {
  const { t } = useI18n();
  const online = useConnection() === "open";
  if (state === "idle") return null;
  return (
    <p className="card-sending" role="status">
      {state === "sent" ? t(isAnswered(approval) ? "question.stored" : "decide.stored") : t(online ? "decide.sending" : "decide.sendingOffline")}
    </p>
  );
}

/** The deadline of a request is the smallest of its actions' timeouts that is not 0. */
function shortestTimeout(approval: ApprovalView): number | undefined {
  const all = approval.reviewConfigs.map((c) => c.timeout ?? 0).filter((s) => s > 0);
  return all.length > 0 ? Math.min(...all) : undefined;
}
