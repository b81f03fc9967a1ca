import { memo } from "react";
import { assigned, decidingRole, progress, type ListedApproval } from "@countersign/client";
import { visibleText } from "@countersign/react";
import { useI18n, type Translate } from "../../i18n/index.js";
import { deciderName, roleName } from "../../lib/people.js";
import { riskOf } from "../../lib/risk.js";
import { agoText } from "../../lib/time.js";
import { useNow } from "../../lib/useNow.js";
import { Countdown } from "../approval/Countdown.js";
import { focusCard } from "../approval/focus.js";
import { rowDetail, rowTitle } from "../approval/title.js";
import { RiskMark } from "../approval/RiskMark.js";

export const rowId = (approvalKey: string) => `row-${approvalKey}`;

interface Props {
  row: ListedApproval;
  href: string;
  open: boolean;
  /** Whether it is for others to decide. */
  others: boolean;
  /** The time until which it is put off. */
  until: string | undefined;
  /** Whether it is selected, if it can be. */
  chosen: boolean | undefined;
  onChoose: (approvalKey: string, chosen: boolean) => void;
}

/** One request in the list. Unchanged rows are not rendered again. */
export const InboxRow = memo(function InboxRow({ row, href, open, others, until, chosen, onChoose }: Props) {
  const { t } = useI18n();
  const title = rowTitle(row, t);
  const detail = rowDetail(row, t);
  const risk = riskOf(row);
  return (
    <li className="inbox-row" id={rowId(row.approvalKey)} data-open={open || undefined} data-chosen={chosen || undefined}>
      {chosen !== undefined && (
        <label className="inbox-choose">
          <input
            type="checkbox"
            checked={chosen}
            aria-label={t("inbox.choose", { what: title })}
            onChange={(e) => onChoose(row.approvalKey, e.target.checked)}
          />
        </label>
      )}
      <a
        className="inbox-link"
        href={href}
        aria-current={open || undefined}
        onClick={(e) => {
          if (!e.ctrlKey && !e.metaKey && !e.shiftKey) focusCard(row.approvalKey);
        }}
      >
        <span className="inbox-title">{title}</span>
        <span className="inbox-deadline">
          {row.expiresAt ? <Countdown expiresAt={row.expiresAt} compact /> : <span className="hint">{t("inbox.noDeadline")}</span>}
        </span>
        {detail !== undefined && <span className="inbox-detail">{detail}</span>}
        <span className="inbox-meta">
          {risk && <RiskMark risk={risk} />} {until !== undefined && <strong>{t("inbox.backAt", { time: until })} · </strong>}
          {row.held && <strong className="inbox-held">{t("inbox.held")} · </strong>}
          {others && <strong className="inbox-waits">{t("status.waitingFor", { who: deciderName(row, t) })} · </strong>}
          <RowFacts row={row} mine={!others} />
        </span>
      </a>
    </li>
  );
});

/** Who requests what through which agent, since when, and its progress. */
function RowFacts({ row, mine }: { row: ListedApproval; mine: boolean }) {
  const { t, language } = useI18n();
  const now = useNow(30_000);
  const tools = [...new Set(row.actions.map((action) => action.name))].map((name) => visibleText(name)).join(t("text.list"));
  const agent = row.actions[0]?.agent;
  const role = decidingRole(row);
  const comments = row.updates.filter((update) => update.update === "comment").length;
  const facts = [
    row.subject !== undefined && t("inbox.requestedBy", { name: visibleText(row.subject) }),
    agent !== undefined && visibleText(agent),
    mine && role !== undefined && t("inbox.asRole", { role: roleName(role, t) }),
    mine && assigned(row).subject !== undefined && t("inbox.handedToYou"),
    decidedSoFar(row, (at) => agoText(at, now, language), t),
    comments > 0 && t("inbox.comments", { n: comments }),
    agoText(row.createdAt, now, language),
  ];
  return (
    <>
      {row.kind !== "question" && <code>{row.interrupt ? visibleText(row.interrupt.node) : tools}</code>}
      {row.kind !== "question" && " · "}
      {facts.filter(Boolean).join(" · ")}
    </>
  );
}

/** The current step of a request, and who has approved it there, and when. */
function decidedSoFar(row: ListedApproval, ago: (at: string) => string, t: Translate): string {
  const votes = progress(row);
  const names = row.updates.flatMap((update) => {
    if (update.update !== "approved" || update.by === undefined) return [];
    return visibleText(update.by) + (update.at ? t("text.paren", { text: ago(update.at) }) : "");
  });
  // Its calls may be at different steps.
  const steps = row.reviewConfigs.flatMap(({ level, levels }) => (level !== undefined && levels ? t("card.level", { n: level, of: levels.length }) : []));
  const votesText =
    votes &&
    (names.length > 0
      ? t("people.progressBy", { n: votes.approved, of: votes.quorum, names: names.join(t("text.list")) })
      : t("people.progress", { n: votes.approved, of: votes.quorum }));
  return [...new Set(steps), votesText].filter(Boolean).join(" · ");
}
