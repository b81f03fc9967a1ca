/** People's comments on a request, and reassigning it. The agent reads none of it. */
import { useEffect, useId, useRef, useState } from "react";
import { decidingRole, type ApprovalView, type UpdateView } from "@countersign/client";
import { useDraft, Visible, visibleText } from "@countersign/react";
import { useI18n, type Translate } from "../../i18n/index.js";
import { announce } from "../../lib/announce.js";
import { composes } from "../../lib/composes.js";
import { handTo } from "../../lib/handTo.js";
import { personName, roleName } from "../../lib/people.js";
import { agoText, momentText } from "../../lib/time.js";
import { useIntoView } from "../../lib/useIntoView.js";
import { useKeptFocus } from "../../lib/useKeptFocus.js";
import { useNow } from "../../lib/useNow.js";
import { commentKey } from "../../lib/unsent.js";
import { useRequest } from "../../lib/useRequest.js";
import { client } from "../../state/connection.js";
import { useBar } from "../../state/bar.js";
import { useDates } from "../../state/dates.js";
import { useMayHand } from "../../state/me.js";
import { Icon } from "../Icon.js";
import { Refused } from "../Refusal.js";
import { HandOver } from "./HandOver.js";
import { subjectOf } from "./title.js";

export function Discussion({ approval }: { approval: ApprovalView }) {
  const { t } = useI18n();
  const [open, setOpen] = useState<"comment" | "hand">();
  const question = approval.kind === "question";
  const role = decidingRole(approval);
  const handed = approval.updates.some((u) => u.update === "reassigned");
  const roles = handTo(approval);
  // A requester must not choose who approves.
  const bar = useBar(approval);
  const asked = bar === "asked" || bar === "spoke" || bar === "edited";
  const mayHand = useMayHand(approval) && !asked;
  const canHand = mayHand && !question && (roles.length > 0 || role !== undefined);
  // If nobody else can see it there is nobody to talk to.
  const others = role !== undefined || roles.length > 0 || (approval.reviewConfigs[0]?.levels?.length ?? 0) > 1;
  const opener = useRef<"comment" | "hand">(undefined);
  // After a hand-over there may be nothing left to press here.
  const kept = useKeptFocus<HTMLDivElement>();
  const box = kept.ref;
  useAnnounceUpdates(approval);

  // A form that closes gives the focus back to what opened it.
  useEffect(() => {
    if (open || !opener.current) return;
    (box.current?.querySelector<HTMLElement>(`[data-open="${opener.current}"]`) ?? box.current)?.focus();
    opener.current = undefined;
  }, [open]);
  const show = (what: "comment" | "hand") => {
    opener.current = what;
    setOpen(what);
  };

  // Existing comments are always shown, even on a question, which is the user's own.
  if ((question || !others) && approval.updates.length === 0) return null;
  return (
    // The card's single-letter keys are for its decision: they do not apply to keys pressed here.
    <div {...kept} className="talk" role="group" aria-label={t("talk.heading")} onKeyDown={(e) => e.target !== e.currentTarget && e.stopPropagation()}>
      <Updates approval={approval} />
      {open === "comment" ? (
        <CommentForm approval={approval} onClose={() => setOpen(undefined)} />
      ) : open === "hand" ? (
        <HandOver approval={approval} roles={roles} assigned={handed} onClose={() => setOpen(undefined)} />
      ) : (
        !question && (
          <div className="talk-actions">
            <button type="button" className="link" data-open="comment" onClick={() => show("comment")}>
              <Icon name="people" />
              {t("talk.open")}
            </button>
            {canHand && (
              <button type="button" className="link" data-open="hand" onClick={() => show("hand")}>
                <Icon name="hand" />
                {t("hand.open")}
              </button>
            )}
          </div>
        )
      )}
    </div>
  );
}

/** Comments and changes, oldest first. */
export function Updates({ approval }: { approval: ApprovalView }) {
  const { t, language } = useI18n();
  const { updates } = useDates(approval, approval.updates.length > 0);
  const now = useNow(30_000);
  // Reminders are counted above; a list of them says nothing.
  const shown = updates.filter((u) => u.update !== "reminder");
  if (shown.length === 0) return null;
  return (
    <ul className="talk-list" aria-label={t("talk.heading")}>
      {shown.map((update, i) => (
        <li key={i} data-update={update.update}>
          <span className="talk-who">
            {update.update === "comment" ? <strong>{personName(update.by, t)}</strong> : eventText(update, t)}
            {update.at && (
              <time dateTime={update.at} title={momentText(update.at, language)}>
                {agoText(update.at, now, language)}
              </time>
            )}
          </span>
          {update.update === "comment" && (
            <p className="talk-text">
              <Visible text={update.text} />
            </p>
          )}
        </li>
      ))}
    </ul>
  );
}

function eventText(update: UpdateView, t: Translate): string {
  const by = personName(update.by, t);
  switch (update.update) {
    case "approved":
      return t("talk.approved", { name: by, n: update.approved, of: update.quorum });
    case "reassigned": {
      const to = [update.subject && visibleText(update.subject), update.role && roleName(update.role, t)].filter(Boolean);
      const said = update.text ? `${t("text.colon")}“${visibleText(update.text)}”` : "";
      return (to.length > 0 ? t("talk.reassigned", { by, to: to.join(t("text.list")) }) : t("talk.given", { by })) + said;
    }
    default:
      // A newer server may report other changes.
      return by + t("text.colon") + visibleText((update as { update: string }).update);
  }
}

/** Announce what others add, once, without moving the focus. */
function useAnnounceUpdates(approval: ApprovalView): void {
  const { t } = useI18n();
  const known = useRef(approval.updates.length);
  useEffect(() => {
    const fresh = approval.updates.slice(known.current);
    known.current = approval.updates.length;
    const texts = fresh.map((update) =>
      update.update === "comment"
        ? t("talk.announce", { name: personName(update.by, t), text: visibleText(update.text) })
        : update.update === "reminder"
          ? t("talk.reminder", { tool: subjectOf(approval, t) })
          : eventText(update, t),
    );
    announce(...texts);
  }, [approval, t]);
}

function CommentForm({ approval, onClose }: { approval: ApprovalView; onClose: () => void }) {
  const { t } = useI18n();
  const id = useId();
  const box = useRef<HTMLFormElement>(null);
  useIntoView(box);
  const [text, setText] = useDraft(commentKey(approval), () => "");
  const { busy, error, run } = useRequest();
  const send = async () => {
    if (busy || !text.trim()) return;
    const comment = { session_id: approval.sessionId, approval_key: approval.approvalKey, text: text.trim() };
    if (!(await run(() => client.comment(comment)))) return;
    setText(undefined);
    onClose();
  };
  return (
    <form
      ref={box}
      className="talk-form"
      onSubmit={(e) => {
        e.preventDefault();
        void send();
      }}
      onKeyDown={(e) => {
        if (composes(e)) return;
        if (e.key === "Escape") onClose();
        if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) void send();
      }}
    >
      <label className="label" htmlFor={id}>
        {t("talk.label")}
      </label>
      <textarea
        id={id}
        className="input"
        rows={2}
        autoFocus
        value={text}
        disabled={busy}
        aria-describedby={`${id}-hint`}
        onChange={(e) => setText(e.target.value)}
      />
      <p id={`${id}-hint`} className="hint">
        {t("talk.hint")}
      </p>
      <Refused error={error} />
      <div className="buttons">
        <button type="button" className="button quiet small" disabled={busy} onClick={onClose}>
          {t("decide.back")}
        </button>
        <button type="submit" className="button small" disabled={busy || !text.trim()}>
          {t("talk.send")}
        </button>
      </div>
    </form>
  );
}
