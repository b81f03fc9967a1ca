/** Asks before a session is deleted, and says what is lost with it. */
import { useEffect, useRef } from "react";
import { flushSync } from "react-dom";
import type { SessionSummary } from "@countersign/client";
import { Visible } from "@countersign/react";
import { useI18n } from "../i18n/index.js";
import { announce } from "../lib/announce.js";
import { useRequest } from "../lib/useRequest.js";
import { http } from "../state/connection.js";
import { forgetSession } from "../state/lists.js";
import { useWaiting } from "../state/me.js";
import { newHref, route } from "../state/route.js";
import { sessions } from "../state/sessions.js";
import { rowTitle } from "./approval/title.js";
import { Dialog } from "./Dialog.js";
import { Refused } from "./Refusal.js";
import { shortId } from "./Sidebar.js";

interface Props {
  session: SessionSummary;
  onClose: () => void;
}

export function DeleteSession({ session, onClose }: Props) {
  const { t } = useI18n();
  const { busy, error, run } = useRequest();
  const known = new Map(useWaiting().requests.map((row) => [row.approvalKey, row]));
  const back = useRef<HTMLButtonElement>(null);
  // Enter, pressed once too often, deletes nothing.
  useEffect(() => back.current?.focus(), []);

  const remove = async () => {
    const sessionId = session.session_id;
    if (!(await run(() => http.deleteSession(sessionId)))) return;
    announce(t("sessions.deleted"));
    sessions.deleted(sessionId);
    forgetSession(sessionId);
    if (route.get().sessionId === sessionId) location.hash = newHref;
    flushSync(onClose);
    // The row whose button was pressed, to which the dialog returned the focus, is gone. On a phone the list covers the
    // page, which cannot take the focus then.
    const main = document.getElementById("main");
    (main?.hasAttribute("inert") ? document.querySelector<HTMLElement>(".sidebar a") : main)?.focus();
  };

  const title = session.title || t("sessions.untitled", { id: shortId(session.session_id) });
  return (
    <Dialog heading={t("sessions.deleteHeading")} busy={busy} onClose={onClose}>
      <div className="delete-body">
        <p>
          <strong>
            <Visible text={title} />
          </strong>
        </p>
        <p>{t("sessions.deleteText")}</p>
        {session.status === "running" && <p className="delete-warns">{t("sessions.deleteRunning")}</p>}
        {(session.pending?.length ?? 0) > 0 && (
          <div className="delete-warns">
            <p>{t("sessions.deletePending")}</p>
            <ul>
              {session.pending?.map((key) => {
                const row = known.get(key);
                return <li key={key}>{row ? rowTitle(row, t) : <code>{key}</code>}</li>;
              })}
            </ul>
          </div>
        )}
        <Refused error={error} />
        <div className="buttons">
          <button ref={back} type="button" className="button quiet" disabled={busy} onClick={onClose}>
            {t("decide.back")}
          </button>
          <button type="button" className="button danger solid" disabled={busy} onClick={() => void remove()}>
            {t("sessions.deleteConfirm")}
          </button>
        </div>
      </div>
    </Dialog>
  );
}
