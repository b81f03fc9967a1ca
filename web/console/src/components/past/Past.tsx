/** The list of a session's earlier points. */
import { useCallback, useEffect, useState } from "react";
import { CountersignError, randomId, stringifyJson, type Checkpoint, type ForkRequest } from "@countersign/client";
import { Problems, useSessionState } from "@countersign/react";
import { argumentOf, problemsOf } from "@countersign/react/forms";
import { useI18n } from "../../i18n/index.js";
import { announce } from "../../lib/announce.js";
import { itemsAt } from "../../lib/past.js";
import { usePages } from "../../lib/usePages.js";
import { useRequest } from "../../lib/useRequest.js";
import { http } from "../../state/connection.js";
import { useIsForeign, useTakesMessages } from "../../state/offers.js";
import { openSession, route } from "../../state/route.js";
import { sessions } from "../../state/sessions.js";
import { Dialog } from "../Dialog.js";
import { Refused } from "../Refusal.js";
import { MOST, Point } from "./Point.js";

/**
 * Points from which a person would hardly continue: between a call's start and its result, or where nothing changed.
 */
const LEFT_OUT = ["call_started", "approval_updated", "rule_revoked", "queued"];

/** The request ids of forks whose answers were lost: requested again under the same id, a fork is made once. */
const requests = new Map<string, string>();

export function Past({ sessionId, onClose }: { sessionId: string; onClose: () => void }) {
  const { t } = useI18n();
  const { view } = useSessionState(sessionId);
  const read = useCallback(
    async (cursor: string | undefined) => {
      const { checkpoints, next } = await http.checkpoints(sessionId, cursor === undefined ? {} : { cursor });
      return { rows: checkpoints.filter((one) => !LEFT_OUT.includes(one.after)), next };
    },
    [sessionId],
  );
  const { rows, more, error, retry } = usePages(read);
  const { busy, error: refused, run } = useRequest();
  const foreign = useIsForeign(sessionId);
  const takesMessages = useTakesMessages(sessionId);

  // The conversation is read as far back as the points go.
  const [unread, setUnread] = useState<CountersignError>();
  const oldest = rows?.at(-1);
  const readEarlier = useCallback(() => {
    setUnread(undefined);
    sessions.loadEarlier(sessionId, http).catch((e: unknown) => setUnread(CountersignError.of(e)));
  }, [sessionId]);
  useEffect(() => {
    if (oldest && view.firstSeq !== undefined && itemsAt(view, oldest, MOST).length < MOST) readEarlier();
  }, [oldest, view.firstSeq, readEarlier]);

  const fork = async (point: Checkpoint, edit?: ForkRequest["edit"]) => {
    const what = stringifyJson([sessionId, point.checkpoint, edit ?? null]);
    const request_id = requests.get(what) ?? randomId();
    requests.set(what, request_id);
    let made = "";
    const done = await run(async () => {
      try {
        made = (await http.fork(sessionId, { checkpoint: point.checkpoint, run: true, request_id, ...(edit ? { edit } : {}) })).session_id;
      } catch (e) {
        // Nothing was created, so the next attempt is a new request, unless this one was turned away unread.
        const { status = 500 } = CountersignError.of(e);
        if (status < 500 && status !== 401 && status !== 429) requests.delete(what);
        throw e;
      }
    });
    if (!done) return;
    requests.delete(what);
    announce(t("past.announce"));
    onClose();
    // A person who has left the session meanwhile stays where they are.
    if (route.get().sessionId === sessionId) openSession(made);
  };

  return (
    <Dialog heading={t("past.heading")} busy={busy} onClose={onClose}>
      <div className="past">
        {!foreign && <p className="muted">{t("past.intro")}</p>}
        <Refused error={error ?? unread ?? refused} onRetry={error ? retry : unread && readEarlier} />
        {/* Why the server refuses a changed call, which that sentence leaves out. */}
        {refused?.code === "invalid_edit" && (
          <div className="field-error" role="alert">
            <Problems problems={problemsOf(refused.details).map(({ pointer, message }) => ({ what: argumentOf(pointer), message }))} />
          </div>
        )}
        <ul className="past-list" aria-label={t("past.heading")}>
          {rows?.map((point) => (
            <Point
              key={point.checkpoint}
              view={view}
              point={point}
              busy={busy}
              takesMessages={takesMessages}
              onFork={foreign ? undefined : (edit) => void fork(point, edit)}
            />
          ))}
        </ul>
        {more && (
          <button type="button" className="button quiet" onClick={more}>
            {t("sessions.more")}
          </button>
        )}
      </div>
    </Dialog>
  );
}
