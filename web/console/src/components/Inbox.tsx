import { useEffect, useRef, useState } from "react";
import { progress, type ApprovalView } from "@countersign/client";
import { useI18n } from "../i18n/index.js";
import { deciderName } from "../lib/people.js";
import { inLine, textOf } from "../lib/shown.js";
import { visibleText } from "../lib/visible.js";
import { readMoreWaiting, sessionList } from "../state/lists.js";
import { useInbox, useWaits } from "../state/me.js";
import { openSession, route } from "../state/route.js";
import { useStore } from "../state/store.js";
import { Countdown } from "./approval/Countdown.js";
import { focusCard } from "./approval/focus.js";
import { cardTitle, firstQuestion, messageOf } from "./approval/title.js";
import { Icon } from "./Icon.js";
import { shortId } from "./Sidebar.js";

/** How many rows are drawn at first, and with each press after that. */
const STEP = 50;

/** Everything that waits, across sessions, the soonest deadline first. Choosing one opens its session at the request. */
export function Inbox({ open, onClose }: { open: boolean; onClose: () => void }) {
  const { t } = useI18n();
  const count = useWaits();
  const dialog = useRef<HTMLDialogElement>(null);

  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);

  return (
    <dialog
      ref={dialog}
      className="dialog"
      aria-labelledby="inbox-heading"
      onClose={onClose}
      onClick={(e) => e.target === dialog.current && onClose()}
    >
      {open && (
        <div className="dialog-body">
          <div className="dialog-head">
            <h2 id="inbox-heading">
              {t("inbox.heading")} {count !== undefined && <span className="muted">({count})</span>}
            </h2>
            <button type="button" className="icon-button" onClick={onClose} aria-label={t("app.close")}>
              <Icon name="close" />
            </button>
          </div>
          <Rows onClose={onClose} />
        </div>
      )}
    </dialog>
  );
}

function Rows({ onClose }: { onClose: () => void }) {
  const { t } = useI18n();
  const { mine, others, more } = useInbox();
  const [most, setMost] = useState(STEP);
  const rows = [...mine, ...others];
  // What this person can decide may be among those that are not read.
  const unknown = more && mine.length === 0;
  if (rows.length === 0) {
    return (
      <div className="empty">
        <Icon name="check" />
        <p>{t("inbox.empty")}</p>
        <p className="muted">{t("inbox.emptyHint")}</p>
      </div>
    );
  }
  return (
    <div className="inbox-list">
      {mine.length === 0 && <p className="muted pad">{unknown ? t("inbox.unknown", { n: rows.length }) : t("inbox.empty")}</p>}
      <ul>
        {mine.slice(0, most).map((row) => (
          <InboxRow key={row.approvalKey} row={row} onClose={onClose} />
        ))}
      </ul>
      {others.length > 0 && mine.length < most && (
        <>
          <h3 className="eyebrow pad">{t("inbox.others")}</h3>
          <ul>
            {others.slice(0, most - mine.length).map((row) => (
              <InboxRow key={row.approvalKey} row={row} decider={deciderName(row, t)} onClose={onClose} />
            ))}
          </ul>
        </>
      )}
      {rows.length > most || unknown ? (
        <button
          type="button"
          className="button quiet wide"
          onClick={() => {
            setMost(most + STEP);
            if (unknown) readMoreWaiting();
          }}
        >
          {t("sessions.more")}
        </button>
      ) : (
        more && <p className="hint pad">{t("inbox.rest", { n: rows.length })}</p>
      )}
    </div>
  );
}

interface RowProps {
  row: ApprovalView;
  /** Who decides it, where that is somebody else. */
  decider?: string;
  onClose: () => void;
}

function InboxRow({ row, decider, onClose }: RowProps) {
  const { t } = useI18n();
  const session = useStore(sessionList).rows.find((s) => s.session_id === row.sessionId);
  const action = row.actions[0];
  const votes = progress(row);
  const question = row.kind === "question" ? firstQuestion(row) : messageOf(row);
  const more = row.actions.length - 1;
  const go = () => {
    onClose();
    if (route.get().sessionId !== row.sessionId) openSession(row.sessionId);
    focusCard(row.approvalKey);
  };
  return (
    <li>
      <button type="button" className="inbox-row" onClick={go}>
        <span className="inbox-main">
          <span className="inbox-title">{cardTitle(row, t)}</span>
          {question !== undefined && <span className="inbox-question">{question}</span>}
          {action && row.kind !== "question" && question === undefined && (
            <span className="inbox-action">
              <code>{visibleText(row.interrupt?.node ?? action.name)}</code>{" "}
              <span className="inbox-args">
                {inLine(textOf(action))}
              </span>
            </span>
          )}
          <span className="session-meta">
            {[
              decider && t("status.waitingFor", { who: decider }),
              action?.agent ?? session?.agent,
              session?.title || t("inbox.session", { id: shortId(row.sessionId) }),
              votes ? t("people.progress", { n: votes.approved, of: votes.quorum }) : "",
              more > 0 ? t("inbox.more", { n: more }) : "",
            ]
              .filter(Boolean)
              .join(" · ")}
          </span>
        </span>
        <span className="inbox-side">
          {row.expiresAt && <Countdown expiresAt={row.expiresAt} compact />}
          <span className="inbox-go">{t(decider !== undefined ? "inbox.look" : row.kind === "question" || row.kind === "interrupt" || row.kind === "input" ? "inbox.answer" : "inbox.review")}</span>
        </span>
      </button>
    </li>
  );
}
