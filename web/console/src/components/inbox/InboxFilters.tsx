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
  onQuery: (query: InboxQuery) => void;
}

/** Searching, filtering and grouping. A filter is shown only if it has something to choose between. */
export function InboxFilters({ query, rows, onQuery }: Props) {
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
          onChange={(e) => onQuery({ ...query, search: e.target.value })}
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
            onChange={(e) => {
              const { [filter]: _, ...rest } = filters;
              onQuery({ ...query, filters: e.target.value === "" ? rest : { ...rest, [filter]: e.target.value } });
            }}
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
          onChange={(e) => onQuery({ ...query, group: (e.target.value || undefined) as Group | undefined })}
        >
          <option value="">{t("inbox.group.none")}</option>
          {GROUPS.map((one) => (
            <option key={one} value={one}>
              {t(`inbox.group.${one}`)}
            </option>
          ))}
        </select>
        {(set > 0 || search !== "") && (
          <button type="button" className="link" onClick={() => onQuery({ ...query, search: "", filters: {}, group: undefined })}>
            {t("inbox.clear")}
          </button>
        )}
      </div>
    </div>
  );
}
