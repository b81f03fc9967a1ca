/** The earlier points of a session, and going on from one of them in a new session. */
import { useEffect, useRef, useState } from "react";
import { type Checkpoint, type CountersignError } from "@countersign/client";
import { isMessageKey, useI18n } from "../i18n/index.js";
import { announce } from "../lib/announce.js";
import { agoText, momentText } from "../lib/time.js";
import { useNow } from "../lib/useNow.js";
import { useRequest } from "../lib/useRequest.js";
import { http } from "../state/connection.js";
import { openSession } from "../state/route.js";
import { asRefusal } from "../state/sessions.js";
import { Icon } from "./Icon.js";
import { Refusal } from "./Refusal.js";

/** Points at which a person would hardly go on: between a call's start and its result, or where nothing changed. */
const LEFT_OUT = ["start", "note", "rule", "queued"];

export function PastButton({ sessionId }: { sessionId: string }) {
  const { t } = useI18n();
  const [open, setOpen] = useState(false);
  const dialog = useRef<HTMLDialogElement>(null);

  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);

  return (
    <>
      <button type="button" className="link past-open" title={t("past.open")} onClick={() => setOpen(true)}>
        <Icon name="clock" />
        <span>{t("past.open")}</span>
      </button>
      <dialog
        ref={dialog}
        className="dialog"
        aria-labelledby="past-heading"
        onClose={() => setOpen(false)}
        onClick={(e) => e.target === dialog.current && setOpen(false)}
      >
        {open && (
          <div className="dialog-body">
            <div className="dialog-head">
              <h2 id="past-heading">{t("past.heading")}</h2>
              <button type="button" className="icon-button" onClick={() => setOpen(false)} aria-label={t("app.close")}>
                <Icon name="close" />
              </button>
            </div>
            <Past sessionId={sessionId} onForked={() => setOpen(false)} />
          </div>
        )}
      </dialog>
    </>
  );
}

interface Points {
  rows: Checkpoint[];
  next: string | undefined;
}

function Past({ sessionId, onForked }: { sessionId: string; onForked: () => void }) {
  const { t } = useI18n();
  const [points, setPoints] = useState<Points>();
  const [error, setError] = useState<CountersignError>();
  const { busy, error: refused, run } = useRequest();

  const load = (cursor?: string) =>
    http.checkpoints(sessionId, cursor ? { cursor } : {}).then(
      ({ checkpoints, next }) => {
        const rows = checkpoints.filter((one) => !LEFT_OUT.includes(one.after));
        setPoints((before) => ({ rows: cursor ? [...(before?.rows ?? []), ...rows] : rows, next }));
        setError(undefined);
      },
      (e: unknown) => setError(asRefusal(e)),
    );
  useEffect(() => void load(), [sessionId]);

  const fork = async (point: Checkpoint) => {
    let made = "";
    const done = await run(async () => {
      made = (await http.fork(sessionId, { checkpoint: point.checkpoint, run: true })).session_id;
    });
    if (!done) return;
    announce(t("past.announce"));
    onForked();
    openSession(made);
  };

  return (
    <div className="past">
      <p className="muted">{t("past.intro")}</p>
      {(error ?? refused) && (
        <div className="field-error" role="alert">
          <Refusal error={(error ?? refused)!} />
          {error && (
            <button type="button" className="link" onClick={() => void load(points?.next)}>
              {t("app.retry")}
            </button>
          )}
        </div>
      )}
      <ul className="past-list" aria-label={t("past.heading")}>
        {points?.rows.map((point) => (
          <Point key={point.checkpoint} point={point} busy={busy} onFork={() => void fork(point)} />
        ))}
      </ul>
      {points?.next && (
        <button type="button" className="button quiet" onClick={() => void load(points.next)}>
          {t("sessions.more")}
        </button>
      )}
    </div>
  );
}

function Point({ point, busy, onFork }: { point: Checkpoint; busy: boolean; onFork: () => void }) {
  const { t, language } = useI18n();
  const now = useNow(30_000);
  const key = `past.after.${point.after}`;
  const what = isMessageKey(key) ? t(key) : point.after;
  return (
    <li className="past-point">
      <span className="past-what">
        <span>{what}</span>
        <span className="session-meta">
          <time dateTime={point.at} title={momentText(point.at, language)}>
            {agoText(point.at, now, language)}
          </time>
          {point.pending.length > 0 && ` · ${t("past.waited", { n: point.pending.length })}`}
        </span>
      </span>
      <button
        type="button"
        className="button small"
        disabled={busy}
        aria-label={t("past.forkFrom", { what })}
        onClick={onFork}
      >
        {t("past.fork")}
      </button>
    </li>
  );
}
