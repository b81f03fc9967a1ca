/** The list of a session's earlier points. */
import { useEffect, useState } from "react";
import { CountersignError, type Checkpoint, type ForkRequest } from "@countersign/client";
import { useSessionState } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { announce } from "../../lib/announce.js";
import { useRequest } from "../../lib/useRequest.js";
import { http } from "../../state/connection.js";
import { openSession } from "../../state/route.js";
import { Refusal } from "../Refusal.js";
import { Point } from "./Point.js";

/** Points at which a person would hardly go on: between a call's start and its result, or where nothing changed. */
const LEFT_OUT = ["start", "note", "rule", "queued"];

interface Points {
  rows: Checkpoint[];
  next: string | undefined;
}

export function Past({ sessionId, onForked }: { sessionId: string; onForked: () => void }) {
  const { t } = useI18n();
  const { view } = useSessionState(sessionId);
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
      (e: unknown) => setError(CountersignError.of(e)),
    );
  useEffect(() => void load(), [sessionId]);

  const fork = async (point: Checkpoint, edit?: ForkRequest["edit"]) => {
    let made = "";
    const done = await run(async () => {
      made = (await http.fork(sessionId, { checkpoint: point.checkpoint, run: true, ...(edit ? { edit } : {}) })).session_id;
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
          <Point key={point.checkpoint} view={view} point={point} busy={busy} onFork={(edit) => void fork(point, edit)} />
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
