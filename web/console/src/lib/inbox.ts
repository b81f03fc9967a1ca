/** The part of the inbox that is shown, according to the address. */

export const TABS = ["mine", "others", "later"] as const;
export type Tab = (typeof TABS)[number];

export const FILTERS = ["tool", "agent", "requester", "role", "risk"] as const;
export type Filter = (typeof FILTERS)[number];

export const GROUPS = [...FILTERS, "session"] as const;
export type Group = (typeof GROUPS)[number];

export interface InboxQuery {
  tab: Tab;
  /** The search text; empty: no search. */
  search: string;
  filters: Partial<Record<Filter, string>>;
  group: Group | undefined;
  /** The request that is open beside the list. */
  open: string | undefined;
}

export const everything: InboxQuery = { tab: "mine", search: "", filters: {}, group: undefined, open: undefined };

/** The length of the longest text that is taken from an address. */
const LONGEST = 200;

const oneOf = <T extends string>(known: readonly T[], text: string | null): T | undefined => known.find((one) => one === text);

export function readQuery(search: string): InboxQuery {
  const given = new URLSearchParams(search);
  const text = (name: string) => given.get(name)?.slice(0, LONGEST) || undefined;
  const filters: InboxQuery["filters"] = {};
  for (const filter of FILTERS) {
    const value = text(filter);
    if (value !== undefined) filters[filter] = value;
  }
  return {
    tab: oneOf(TABS, given.get("show")) ?? "mine",
    search: text("q") ?? "",
    filters,
    group: oneOf(GROUPS, given.get("group")),
    open: text("open"),
  };
}

export function inboxHref({ tab, search, filters, group, open }: InboxQuery = everything): string {
  const said = new URLSearchParams();
  if (tab !== "mine") said.set("show", tab);
  if (search) said.set("q", search);
  for (const filter of FILTERS) if (filters[filter] !== undefined) said.set(filter, filters[filter]);
  if (group) said.set("group", group);
  if (open) said.set("open", open);
  const text = said.toString();
  return `#/inbox${text && `?${text}`}`;
}
