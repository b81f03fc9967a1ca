/**
 * One earlier point: what had just happened, the conversation before it, and continuing from it, with or without a
 * change.
 */
import { useId, useMemo, useState } from "react";
import type { Checkpoint, ForkRequest, SessionView } from "@countersign/client";
import { Visible, visibleText } from "@countersign/react";
import { isMessageKey, useI18n, type Translate } from "../../i18n/index.js";
import { editableAt, itemsAt, oneLine, type PastItem } from "../../lib/past.js";
import { personName, type Me } from "../../lib/people.js";
import { agoText, momentText } from "../../lib/time.js";
import { useNow } from "../../lib/useNow.js";
import { useMe } from "../../state/me.js";
import { summarize } from "../approval/ResolvedLine.js";
import { rowTitle } from "../approval/title.js";
import { Icon } from "../Icon.js";
import { PointEdit } from "./PointEdit.js";

/** How many items of the conversation before a point are shown. */
export const MOST = 8;

interface Props {
  view: SessionView;
  point: Checkpoint;
  busy: boolean;
  takesMessages: boolean;
  /** Absent: the session is somebody else's, who alone may continue it. */
  onFork: ((edit?: ForkRequest["edit"]) => void) | undefined;
}

export function Point({ view, point, busy, takesMessages, onFork }: Props) {
  const { t, language } = useI18n();
  const id = useId();
  const now = useNow(30_000);
  const [open, setOpen] = useState(false);
  const [last] = useMemo(() => itemsAt(view, point, 1), [view, point]);
  const me = useMe();
  const what = whatText(point, me, t);
  const by = point.by !== undefined && !NAMED.includes(point.after) ? point.by : undefined;
  return (
    <li className="past-point" data-open={open || undefined}>
      <span className="past-what">
        <button type="button" className="past-toggle" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
          <Icon name="chevron" />
          <span>{what}</span>
        </button>
        {last && (
          <span className="past-excerpt">
            <Visible text={oneLine(excerpt(last, view, t))} />
          </span>
        )}
        <span className="session-meta">
          <time dateTime={point.at} title={momentText(point.at, language)}>
            {agoText(point.at, now, language)}
          </time>
          {by !== undefined && ` · ${t("resolved.by", { name: visibleText(by) })}`}
          {point.pending.length > 0 && ` · ${t("past.waited", { n: point.pending.length })}`}
        </span>
      </span>
      {onFork && (
        <button type="button" className="button small" disabled={busy} aria-label={t("past.forkFrom", { what })} onClick={() => onFork()}>
          {t("past.fork")}
        </button>
      )}
      <div id={id} className="past-open-body" hidden={!open}>
        {open && (
          <>
            <Preview view={view} point={point} />
            {onFork && isHere(view, point) && <PointEdit editable={editableAt(view, point, takesMessages)} busy={busy} onFork={onFork} />}
          </>
        )}
      </div>
    </li>
  );
}

/** Whether the turn it is in has been read. */
const isHere = ({ firstSeq }: SessionView, { seq }: Checkpoint) => firstSeq === undefined || seq >= firstSeq;

/** The events whose heading also says who did it. */
const NAMED = ["message", "decision"];

/** What had happened there, and who had done it: only this person's own actions are called theirs. */
function whatText({ after, by }: Pick<Checkpoint, "after" | "by">, me: Me, t: Translate): string {
  if (after === "message") return isOwn(by, me) ? t("past.yourMessage") : t("past.message", { name: personName(by, t) });
  if (after === "decision") {
    if (by === undefined) return t("past.decisionNameless");
    return by === me.name ? t("past.yourDecision") : t("past.decision", { name: visibleText(by) });
  }
  const key = `past.after.${after}`;
  return isMessageKey(key) ? t(key) : after;
}

/** Whether it was this person. Where nobody has to sign in, there is only one person. */
const isOwn = (by: string | undefined, me: Me) => by === me.name;

/** The end of the conversation as it was there. */
function Preview({ view, point }: { view: SessionView; point: Checkpoint }) {
  const { t } = useI18n();
  const me = useMe();
  const items = useMemo(() => itemsAt(view, point, MOST), [view, point]);
  if (items.length === 0) return <p className="muted">{t(isHere(view, point) ? "chat.empty" : "chat.loading")}</p>;
  return (
    <ol className="past-items" aria-label={t("past.preview")}>
      {items.map((item) => (
        <li key={item.key} data-kind={item.kind}>
          <span className="past-by">{byText(item, me, t)}</span>
          <span className="past-text">
            <Visible text={excerpt(item, view, t)} />
            {item.kind === "asked" && !item.waits && item.approval.by !== undefined && (
              <span className="muted"> {t("resolved.by", { name: visibleText(item.approval.by) })}</span>
            )}
          </span>
        </li>
      ))}
    </ol>
  );
}

function byText(item: PastItem, me: Me, t: Translate): string {
  switch (item.kind) {
    case "said":
      return isOwn(item.by, me) ? t("chat.you") : personName(item.by, t);
    case "answered":
      return t("chat.agent");
    case "called":
    case "result":
      return item.name;
    case "asked":
      return t(item.waits ? "past.asked" : "past.decided");
  }
}

/** An item's text, call or decision, as in its own line. */
function excerpt(item: PastItem, view: SessionView, t: Translate): string {
  switch (item.kind) {
    case "said":
      return [item.text, item.images > 0 && t("past.images", { n: item.images })].filter(Boolean).join(" ");
    case "called":
      return item.text === "" ? item.name : item.text;
    case "asked":
      return item.waits ? rowTitle(item.approval, t) : rowTitle(item.approval, t) + t("text.colon") + summarize(item.approval, t, view.approvals).text;
    default:
      return item.text;
  }
}
