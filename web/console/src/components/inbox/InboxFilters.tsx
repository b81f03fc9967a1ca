import { useId, useState } from "react";
import type { ListedApproval } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { FILTERS, GROUPS, type Group, type InboxQuery } from "../../lib/inbox.js";
import { choicesOf } from "../../lib/listing.js";
import { Icon } from "../Icon.js";
import { valueName } from "./InboxList.js";

interface Props {
  query: InboxQuery;
  /** The rows from which the filters choose. */
  rows: readonly ListedApproval[];
  /** Changes the query that is current at that moment: the page may not have followed a clicked link yet. */
  onChange: (change: (now: InboxQuery) => InboxQuery) => void;
}

/** Searching, filtering and grouping. A filter is shown only if it has something to choose between. */
export function InboxFilters({ query, rows, onChange }: Props) {
  const { t } = useI18n();
  const id = useId();
  const [open, setOpen] = useState(false);
  const { search, filters, group } = query;
  const shown = FILTERS.map((filter) => ({ filter, choices: choicesOf(rows, filter, filters[filter]) })).filter(
    ({ filter, choices }) => choices.length > 1 || filters[filter] !== undefined,
  );
  const set = Object.keys(filters).length + (group ? 1 : 0);
  return (
    <div className="inbox-filters">
      <div className="inbox-search">
        <Icon name="search" />
        <input
          type="search"
          className="input"
          aria-label={t("inbox.search")}
          placeholder={t("inbox.search")}
          value={search}
          onChange={({ target }) => onChange((now) => ({ ...now, search: target.value }))}
        />
      </div>
      <button type="button" className="button small inbox-more-filters" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
        {t("inbox.filters")}
        {set > 0 && <span className="count">{set}</span>}
      </button>
      <div id={id} className="inbox-selects" data-open={open || undefined}>
        {shown.map(({ filter, choices }) => (
          <select
            key={filter}
            className="select small"
            aria-label={t(`inbox.filter.${filter}`)}
            data-set={filters[filter] !== undefined || undefined}
            value={filters[filter] ?? ""}
            onChange={({ target: { value } }) =>
              onChange((now) => {
                const { [filter]: _, ...rest } = now.filters;
                return { ...now, filters: value === "" ? rest : { ...rest, [filter]: value } };
              })
            }
          >
            <option value="">{t(`inbox.all.${filter}`)}</option>
            {choices.map(([value, n]) => (
              <option key={value} value={value}>
                {valueName(filter, value, t)} ({n})
              </option>
            ))}
          </select>
        ))}
        <select
          className="select small"
          aria-label={t("inbox.group")}
          data-set={group !== undefined || undefined}
          value={group ?? ""}
          onChange={({ target }) => onChange((now) => ({ ...now, group: (target.value || undefined) as Group | undefined }))}
        >
          <option value="">{t("inbox.group.none")}</option>
          {GROUPS.map((one) => (
            <option key={one} value={one}>
              {t(`inbox.group.${one}`)}
            </option>
          ))}
        </select>
        {(set > 0 || search !== "") && (
          <button type="button" className="link" onClick={() => onChange((now) => ({ ...now, search: "", filters: {}, group: undefined }))}>
            {t("inbox.clear")}
          </button>
        )}
      </div>
    </div>
  );
}
