/** The state of the newest turn if it does not continue by itself, and what can be done about it. */
import { useId, useState, type ReactNode } from "react";
import { isCut, type AgentSummary, type HeldTurn, type SessionView } from "@countersign/client";
import { Visible } from "@countersign/react";
import type { MessageKey } from "../i18n/en.js";
import { useI18n } from "../i18n/index.js";
import { isLeft } from "../lib/turns.js";
import { useRequest } from "../lib/useRequest.js";
import { client, http } from "../state/connection.js";
import { useIsForeign } from "../state/offers.js";
import { Icon } from "./Icon.js";
import { Refusal } from "./Refusal.js";

/** How many more model calls a person can allow at a time, at most as many as the agent may make. */
const MORE_CALLS = 10;

interface Props {
  view: SessionView;
  agent: AgentSummary | undefined;
}

export function TurnEnd({ view, agent }: Props) {
  const { t } = useI18n();
  const foreign = useIsForeign(view.sessionId);
  if (view.status === "cancelled") return <p className="turn-end">{t("chat.stopped")}</p>;
  const reason = view.messages.findLast((m) => m.role === "assistant")?.stopReason;
  if (view.status === "completed" && isCut(reason)) {
    return (
      <p className="turn-end cut" role="status">
        <Icon name="warning" />
        {t(`chat.cut.${reason}`)}
      </p>
    );
  }
  if (isHeld(view)) {
    return (
      <Stopped view={view} spent={false} agent={agent}>
        {t(whyHeld(view.held))} {!foreign && t(agent ? "chat.resume" : "chat.resumeRetried")}
      </Stopped>
    );
  }
  if (view.status !== "failed") return null;
  const error = view.error as { code?: string; message?: string } | string | undefined;
  const text = typeof error === "string" ? error : error?.message;
  const spent = typeof error === "object" && error.code === "max_turns";
  return (
    <Stopped view={view} spent={spent} agent={agent}>
      {t(spent ? "chat.maxTurns" : "chat.failed")}
      {text && (
        <span className="detail">
          <Visible text={text} />
        </span>
      )}
    </Stopped>
  );
}

/** The turn continues only when somebody says so. */
export const isHeld = (view: SessionView): boolean => view.held !== undefined;

const HELD: { [reason: string]: MessageKey } = { fork: "chat.heldFork", crashes: "chat.held", restored: "chat.restored" };

export const whyHeld = (held: HeldTurn | undefined): MessageKey => HELD[held?.reason ?? ""] ?? "chat.heldOther";

interface StoppedProps extends Props {
  /** Whether it has used up its model calls. */
  spent: boolean;
  /** Why. */
  children: ReactNode;
}

function Stopped({ view, agent, spent, children }: StoppedProps) {
  const { t } = useI18n();
  const id = useId();
  const { busy, error, run } = useRequest();
  const most = agent?.max_turns;
  const [entered, enter] = useState<string>();
  const more = entered ?? String(Math.min(MORE_CALLS, most ?? MORE_CALLS));
  // A turn can also fail for another reason in the last call that it may make.
  const asks = spent || error?.code === "max_turns";
  const moreCalls = Number(more);
  const valid = !asks || (Number.isInteger(moreCalls) && moreCalls >= 1 && moreCalls <= (most ?? moreCalls));
  const left = isLeft(view);
  const foreign = useIsForeign(view.sessionId);
  return (
    <div className="turn-end failed">
      <Icon name="warning" />
      <div className="turn-end-text">
        <p role="alert">{children}</p>
        {left && <p className="hint">{t("chat.left")}</p>}
        {!foreign && (
          <form
            className="turn-end-actions"
            onSubmit={(e) => {
              e.preventDefault();
              if (valid) void run(() => http.retry(view.sessionId, asks ? { moreCalls } : {}));
            }}
          >
            {asks && (
              <>
                <label htmlFor={id}>{t("chat.moreCalls")}</label>
                <input
                  id={id}
                  className="input"
                  type="number"
                  inputMode="numeric"
                  min={1}
                  max={most}
                  aria-invalid={!valid || undefined}
                  value={more}
                  onChange={(e) => enter(e.target.value)}
                />
              </>
            )}
            <button type="submit" className="button small" disabled={busy || !valid}>
              <Icon name="repeat" />
              {t("app.retry")}
            </button>
            {left && (
              <button
                type="button"
                className="button small quiet"
                disabled={busy}
                onClick={() => void run(() => client.cancel(view.sessionId))}
              >
                {t("chat.giveUp")}
              </button>
            )}
          </form>
        )}
        {error && (
          <div className="turn-end-error" role="alert">
            <Refusal error={error} />
          </div>
        )}
      </div>
    </div>
  );
}
