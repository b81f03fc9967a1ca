/** One decision about many requests, each of which is shown with what would run and its digest. */
import { useCallback, useId, useState } from "react";
import { configOf, CountersignError, type ListedApproval } from "@countersign/client";
import { AgentSays, Arguments, PreviewText, sendReply, shownArgs, useConnection, useDraft, visibleText } from "@countersign/react";
import { isLongText } from "@countersign/react/forms";
import { useI18n } from "../../i18n/index.js";
import { bulkDecisions, type BulkChoice } from "../../lib/bulk.js";
import { riskOf } from "../../lib/risk.js";
import { useFocusBack } from "../../lib/useFocusBack.js";
import { client } from "../../state/connection.js";
import { RiskMark } from "../approval/RiskMark.js";
import { rowTitle } from "../approval/title.js";
import { Dialog } from "../Dialog.js";
import { Icon } from "../Icon.js";
import { Refusal } from "../Refusal.js";

export interface Bulk {
  choice: BulkChoice;
  rows: ListedApproval[];
  /** How many selected ones cannot be decided this way. */
  leftOut: number;
}

/** The outcome of one of them. */
type Outcome = "stored" | CountersignError;

interface Props {
  bulk: Bulk;
  /** Called with those that are decided. */
  onStored: (rows: ListedApproval[]) => void;
  onClose: () => void;
}

export function BulkDialog({ bulk: { choice, rows, leftOut }, onStored, onClose }: Props) {
  const { t } = useI18n();
  const id = useId();
  const online = useConnection() === "open";
  const [reason, setReason] = useDraft("bulk-reason", () => "");
  const [busy, setBusy] = useState(false);
  useFocusBack(busy);
  const [outcomes, setOutcomes] = useState<ReadonlyMap<string, Outcome>>(new Map());
  const [seen, setSeen] = useState<ReadonlySet<string>>(new Set());
  const onSeen = useCallback((place: string) => setSeen((all) => (all.has(place) ? all : new Set(all).add(place))), []);

  const allSeen = rows.every((row) => row.actions.every((action, i) => seen.has(placeOf(row, i)) || !isLongText(shownArgs(action))));
  const over = outcomes.size > 0 && !busy;
  const refused = [...outcomes.values()].filter((outcome) => outcome !== "stored").length;

  const send = async () => {
    setBusy(true);
    const sent = rows.map(async (row): Promise<[ListedApproval, Outcome]> => {
      try {
        await sendReply(client, row, { decisions: bulkDecisions(row, choice, reason) });
        return [row, "stored"];
      } catch (error) {
        return [row, CountersignError.of(error)];
      }
    });
    const results = await Promise.all(sent);
    setBusy(false);
    const stored = results.filter(([, outcome]) => outcome === "stored").map(([row]) => row);
    if (choice === "reject" && stored.length > 0) setReason(undefined);
    onStored(stored);
    if (stored.length === rows.length) return onClose();
    setOutcomes(new Map(results.map(([row, outcome]) => [row.approvalKey, outcome])));
  };

  return (
    <Dialog heading={t(`bulk.heading.${choice}`, { n: rows.length })} className="bulk" busy={busy} onClose={onClose}>
      <div className="bulk-list" tabIndex={0} role="group" aria-label={t("bulk.list")}>
        {leftOut > 0 && <p className="hint">{t("bulk.leftOut", { n: leftOut })}</p>}
        <ol>
          {rows.map((row) => (
            <BulkRow key={row.approvalKey} row={row} outcome={outcomes.get(row.approvalKey)} seen={seen} onSeen={onSeen} />
          ))}
        </ol>
      </div>
      <div className="bulk-foot">
        {choice === "reject" && !over && (
          <div className="field">
            <label className="label" htmlFor={`${id}-reason`}>
              {t("bulk.reason")}
            </label>
            <textarea
              id={`${id}-reason`}
              className="input"
              rows={2}
              placeholder={t("decide.reasonPlaceholder")}
              value={reason}
              disabled={busy}
              onChange={(e) => setReason(e.target.value)}
            />
          </div>
        )}
        {choice === "approve" && !allSeen && !over && <p className="hint warn">{t("bulk.unseen")}</p>}
        {busy && <p className="hint" role="status">{t(online ? "decide.sending" : "decide.sendingOffline")}</p>}
        {over && (
          <p className="field-error" role="alert">
            {t("bulk.refused", { n: refused, of: rows.length })}
          </p>
        )}
        <div className="buttons">
          <button type="button" className="button quiet" disabled={busy} onClick={onClose}>
            {t(over ? "app.close" : "decide.back")}
          </button>
          {!over && (
            <button
              type="button"
              className={choice === "approve" ? "button primary" : "button danger solid"}
              disabled={busy || (choice === "approve" && !allSeen)}
              onClick={() => void send()}
            >
              {t(`bulk.confirm.${choice}`, { n: rows.length })}
            </button>
          )}
        </div>
      </div>
    </Dialog>
  );
}

const placeOf = (row: ListedApproval, action: number) => `${row.approvalKey} ${action}`;

interface RowProps {
  row: ListedApproval;
  outcome: Outcome | undefined;
  seen: ReadonlySet<string>;
  onSeen: (place: string) => void;
}

function BulkRow({ row, outcome, seen, onSeen }: RowProps) {
  const { t } = useI18n();
  const risk = riskOf(row);
  return (
    <li className="bulk-row">
      <h3>{rowTitle(row, t)}</h3>
      <p className="inbox-meta">
        <span>
          {[row.subject !== undefined && t("inbox.requestedBy", { name: visibleText(row.subject) }), visibleText(row.actions[0]?.agent ?? "")]
            .filter(Boolean)
            .join(" · ")}
        </span>
        {risk && <RiskMark risk={risk} />}
      </p>
      {row.actions.map((action, i) => (
        <div key={i} className="bulk-action">
          <code className="bulk-tool">{visibleText(action.name)}</code>
          <Arguments action={action} config={configOf(row, i)} seen={seen.has(placeOf(row, i))} onSeen={() => onSeen(placeOf(row, i))} />
          <PreviewText preview={action.preview} />
          <AgentSays action={action} />
          {action.digest !== undefined && (
            <p className="bulk-digest">
              {t("bulk.digest")}<code>{action.digest}</code>
            </p>
          )}
        </div>
      ))}
      {outcome === "stored" && (
        <p className="bulk-stored">
          <Icon name="check" />
          {t("decide.stored")}
        </p>
      )}
      {outcome !== undefined && outcome !== "stored" && (
        <div className="field-error">
          <Refusal error={outcome} />
        </div>
      )}
    </li>
  );
}
