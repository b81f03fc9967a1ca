/** The request that is open beside the list: who asks, and the card to decide it on. */
import { useEffect, useMemo, useState } from "react";
import { CountersignError, type ErrorEvent, type ListedApproval } from "@countersign/client";
import { useConnection, useSessionState, visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { agoText, momentText } from "../../lib/time.js";
import { TurnFailed } from "../../lib/turnFailed.js";
import { useNow } from "../../lib/useNow.js";
import { http } from "../../state/connection.js";
import { sessionList } from "../../state/lists.js";
import { sessionHref } from "../../state/route.js";
import { sessions } from "../../state/sessions.js";
import { useStore } from "../../state/store.js";
import { ApprovalCard } from "../approval/ApprovalCard.js";
import { Icon } from "../Icon.js";
import { Refused } from "../Refusal.js";
import { shortId } from "../Sidebar.js";
import { whyHeld } from "../TurnEnd.js";

/** A person walking through the list must look at a request for this long before its session is read. */
const FOLLOW_AFTER_MS = 250;

/** There is no such request, or this person may not see it. */
const MISSING: readonly string[] = ["approval_not_found", "forbidden", "session_deleted"] satisfies ErrorEvent["code"][];

interface Props {
  approvalKey: string;
  /** Its row, if it is pending. */
  row: ListedApproval | undefined;
  onSent: (approval: ListedApproval) => void;
}

export function OpenRequest({ approvalKey, row, onSent }: Props) {
  const { t } = useI18n();
  const { request, error, retry } = useKnown(approvalKey, row);
  // What was known of it before is over, too.
  if (error && MISSING.includes(error.code)) return <Gone />;
  if (request) return <Request listed={request} onSent={onSent} />;
  return error ? <Refused error={error} onRetry={retry} /> : <p className="muted">{t("inbox.loading")}</p>;
}

function Gone() {
  return <p className="notice">{useI18n().t("error.approval_not_found")}</p>;
}

function Request({ listed, onSent }: { listed: ListedApproval; onSent: (approval: ListedApproval) => void }) {
  const { t } = useI18n();
  const { sessionId, approvalKey } = listed;
  const { view, deleted } = useSessionState(sessionId);
  useEffect(() => {
    let stop = () => {};
    const timer = setTimeout(() => (stop = sessions.follow(sessionId)), FOLLOW_AFTER_MS);
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [sessionId]);
  // Its session's events report its outcome at once.
  const live = view.approvals[approvalKey];
  const request = useMemo((): ListedApproval => (live?.complete ? { ...listed, ...live } : listed), [listed, live]);
  // The list knows it before the session's events have arrived, and for a failed turn they never say it.
  const held = view.held ?? (view.status === undefined || (view.status === "failed" && listed.held?.reason === "restored") ? listed.held : undefined);
  // The session says so before the list does.
  if (deleted) return <Gone />;
  return (
    <>
      <Asked request={request} />
      {held && request.resolution === undefined && <p className="inbox-held">{t(whyHeld(held))}</p>}
      <TurnFailed value={view.status === "failed"}>
        <ApprovalCard approval={request} onSent={() => onSent(request)} />
      </TurnFailed>
    </>
  );
}

/** The requester, the time, and the session. */
function Asked({ request: { sessionId, subject, createdAt } }: { request: ListedApproval }) {
  const { t, language } = useI18n();
  const now = useNow(30_000);
  const title = useStore(sessionList).rows.find((row) => row.session_id === sessionId)?.title;
  return (
    <p className="inbox-asked">
      {createdAt !== undefined && (
        <time dateTime={createdAt} title={momentText(createdAt, language)}>
          {subject === undefined
            ? t("inbox.askedAt", { when: agoText(createdAt, now, language) })
            : t("inbox.askedBy", { name: visibleText(subject), when: agoText(createdAt, now, language) })}
        </time>
      )}
      <a className="link" href={sessionHref(sessionId)}>
        <Icon name="comment" />
        {title ? visibleText(title) : t("inbox.session", { id: shortId(sessionId) })}
      </a>
    </p>
  );
}

interface Known {
  request: ListedApproval | undefined;
  /** Why it could not be read. */
  error?: CountersignError;
}

/** A request that is not, or no longer, in a list is read by its key. */
function useKnown(approvalKey: string, row: ListedApproval | undefined): Known & { retry: () => void } {
  const [read, setRead] = useState<Known>({ request: row });
  const [attempt, setAttempt] = useState(0);
  const waits = row !== undefined;
  // A failed reading is repeated once the server is back.
  const online = useConnection() === "open";
  useEffect(() => {
    if (waits || !online) return;
    let gone = false;
    http.approval(approvalKey).then(
      (request) => !gone && setRead({ request }),
      (e: unknown) => !gone && setRead(({ request }) => ({ request, error: CountersignError.of(e) })),
    );
    return () => void (gone = true);
  }, [approvalKey, waits, online, attempt]);
  useEffect(() => {
    if (row) setRead({ request: row });
  }, [row]);
  const retry = () => {
    setRead({ request: undefined });
    setAttempt((n) => n + 1);
  };
  return { ...(row ? { request: row } : read), retry };
}
