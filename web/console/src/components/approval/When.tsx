/** When a request was made and when it ended, and its requester. */
import { useRef } from "react";
import type { ListedApproval } from "@countersign/client";
import { visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { agoText, momentText } from "../../lib/time.js";
import { useNow } from "../../lib/useNow.js";
import { useDates, useSeen } from "../../state/dates.js";

/** Of a card in a conversation; in the inbox it is above the card, with a link to its session. */
export function AskedLine({ approval }: { approval: ListedApproval }) {
  const { t, language } = useI18n();
  const now = useNow(30_000);
  const inList = approval.createdAt !== undefined;
  const { subject, createdAt } = useDates(approval, !inList);
  if (inList) return null;
  // The content below must not move when the time is known: somebody may be about to press a button.
  if (createdAt === undefined) return <p className="card-asked" aria-hidden="true">&nbsp;</p>;
  const when = agoText(createdAt, now, language);
  return (
    <p className="card-asked">
      <time dateTime={createdAt} title={momentText(createdAt, language)}>
        {subject === undefined ? t("inbox.askedAt", { when }) : t("inbox.askedBy", { name: visibleText(subject), when })}
      </time>
    </p>
  );
}

/** When it was decided, answered, or ended in another way. */
export function ResolvedWhen({ approval }: { approval: ListedApproval }) {
  const { language } = useI18n();
  const now = useNow(30_000);
  const place = useRef<HTMLTimeElement>(null);
  const { resolvedAt } = useDates(approval, useSeen(place));
  return (
    <time ref={place} className="muted resolved-when" dateTime={resolvedAt} title={resolvedAt && momentText(resolvedAt, language)}>
      {resolvedAt !== undefined && ` · ${agoText(resolvedAt, now, language)}`}
    </time>
  );
}
