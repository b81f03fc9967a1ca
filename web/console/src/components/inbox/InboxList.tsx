import { visibleText } from "@countersign/react";
import { type Group, type InboxQuery, inboxHref } from "../../lib/inbox.js";
import type { RowGroup } from "../../lib/listing.js";
import { useI18n, type Translate } from "../../i18n/index.js";
import { roleName } from "../../lib/people.js";
import { timeText } from "../../lib/time.js";
import { sessionList } from "../../state/lists.js";
import { riskName } from "../approval/RiskMark.js";
import { shortId } from "../Sidebar.js";
import { InboxRow } from "./InboxRow.js";
import type { Chosen } from "./useListing.js";

interface Props {
  groups: readonly RowGroup[];
  query: InboxQuery;
  chosen: Chosen;
  /** The keys of the requests for others to decide. */
  others: ReadonlySet<string>;
  putOff: ReadonlyMap<string, number>;
}

export function InboxList({ groups, query, chosen: { choosable, chosen, choose, chooseAll }, others, putOff }: Props) {
  const { t, language } = useI18n();
  return groups.map(({ values, rows, total }) => {
    const name = query.group && groupName(query.group, values, t);
    const keys = rows.map((row) => row.approvalKey).filter((key) => choosable.has(key));
    const chooses = t(keys.length < rows.length ? "inbox.chooseSome" : "inbox.chooseAll", { n: keys.length });
    const all = keys.length > 0 && keys.every((key) => chosen.has(key));
    return (
      <section key={values.join("\n")} className="inbox-group" aria-label={name ?? t("inbox.list")}>
        {(name !== undefined || keys.length > 1) && (
          <div className="inbox-group-head">
            {keys.length > 1 && (
              <label className="inbox-choose">
                <input
                  type="checkbox"
                  checked={all}
                  ref={(box) => {
                    if (box) box.indeterminate = !all && keys.some((key) => chosen.has(key));
                  }}
                  aria-label={name === undefined ? chooses : t("inbox.chooseGroup", { n: keys.length, name })}
                  onChange={(e) => chooseAll(keys, e.target.checked)}
                />
                {name === undefined && <span aria-hidden="true">{chooses}</span>}
              </label>
            )}
            {name !== undefined && (
              <h2>
                {name}
                <span className="muted">{t("text.paren", { text: total })}</span>
              </h2>
            )}
          </div>
        )}
        <ul>
          {rows.map((row) => {
            const key = row.approvalKey;
            const until = putOff.get(key);
            return (
              <InboxRow
                key={key}
                row={row}
                href={inboxHref({ ...query, open: key })}
                open={query.open === key}
                others={others.has(key)}
                until={until === undefined ? undefined : timeText(until, language)}
                chosen={choosable.has(key) ? chosen.has(key) : undefined}
                onChoose={choose}
              />
            );
          })}
        </ul>
      </section>
    );
  });
}

/** The name, on the page, of what the rows of a group have in common. */
function groupName(group: Group, values: readonly string[], t: Translate): string {
  if (values.length === 0) return t(`inbox.without.${group === "risk" ? "risk" : "value"}`);
  return values.map((value) => valueName(group, value, t)).join(t("text.list"));
}

export function valueName(group: Group, value: string, t: Translate): string {
  if (group === "role") return roleName(value, t);
  if (group === "risk") return riskName(value, t);
  if (group !== "session") return visibleText(value);
  const title = sessionList.get().rows.find((one) => one.session_id === value)?.title;
  return title ? visibleText(title) : t("inbox.session", { id: shortId(value) });
}
