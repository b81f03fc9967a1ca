/** Which requests the inbox shows, in which groups and in which order. */
import { decidingRole, questionsOf, type ApprovalView } from "@countersign/client";
import { shownArgs } from "@countersign/react";
import { elicitationOf } from "@countersign/react/forms";
import { folded } from "./folded.js";
import { FILTERS, type Filter, type Group, type InboxQuery } from "./inbox.js";
import { riskOf } from "./risk.js";

/** The session's owner, as a role is named in a policy. */
const OWNER = "user";

const distinct = (values: (string | undefined)[]): string[] => [...new Set(values.filter((value) => value !== undefined))];

/**
 * A request's values of a property by which it can be filtered or grouped; a request with several actions may have
 * several.
 */
export function valuesOf(row: ApprovalView, group: Group): string[] {
  switch (group) {
    case "tool":
      return distinct(row.actions.map((action) => action.name));
    case "agent":
      return distinct(row.actions.map((action) => action.agent));
    case "requester":
      return distinct([row.subject]);
    case "role":
      return [decidingRole(row) ?? OWNER];
    case "risk":
      return distinct([riskOf(row)]);
    case "session":
      return [row.sessionId];
  }
}

/** Computed once for each row: it is used with each letter that is typed. */
const searched = new WeakMap<ApprovalView, string>();

function textOfRow(row: ApprovalView): string {
  let text = searched.get(row);
  if (text === undefined) {
    const questions = (questionsOf(row.actions[0]?.args) ?? []).map((one) => one.question);
    const titles = row.reviewConfigs.map((config) => config.title ?? "");
    const shown = row.actions.flatMap((action) => [action.name, action.agent ?? "", shownArgs(action)]);
    const all = [...titles, ...shown, ...questions, elicitationOf(row)?.message ?? "", row.subject ?? "", decidingRole(row) ?? "", row.approvalKey];
    text = folded(all.join("\n"));
    searched.set(row, text);
  }
  return text;
}

/** The rows that match every word of the search, somewhere in what the request shows, and each filter. */
export function matching(rows: readonly ApprovalView[], { search, filters }: Pick<InboxQuery, "search" | "filters">): ApprovalView[] {
  const words = folded(search).split(/\s+/).filter(Boolean);
  const wanted = FILTERS.flatMap((filter): [Filter, string][] => (filters[filter] === undefined ? [] : [[filter, filters[filter]]]));
  return rows.filter(
    (row) =>
      wanted.every(([filter, value]) => valuesOf(row, filter).includes(value)) &&
      (words.length === 0 || words.every((word) => textOfRow(row).includes(word))),
  );
}

/**
 * The possible values of a filter, with the number of rows for each; the chosen one is included even if no row has it.
 */
export function choicesOf(rows: readonly ApprovalView[], filter: Filter, chosen: string | undefined): [string, number][] {
  const counts = new Map<string, number>();
  if (chosen !== undefined) counts.set(chosen, 0);
  for (const row of rows) for (const value of valuesOf(row, filter)) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].sort(([a], [b]) => a.localeCompare(b));
}

export interface RowGroup {
  /** The values that its rows have in common; empty: they have none. */
  values: string[];
  rows: ApprovalView[];
  /** Its total number of rows, if not all of them are rendered. */
  total: number;
}

/** The rows in groups, the one with the soonest deadline first; a single group if they are not grouped. */
export function grouped(rows: readonly ApprovalView[], group: Group | undefined): RowGroup[] {
  if (group === undefined) return rows.length > 0 ? [{ values: [], rows: [...rows], total: rows.length }] : [];
  const groups = new Map<string, RowGroup>();
  for (const row of rows) {
    const values = valuesOf(row, group).sort();
    const key = JSON.stringify(values);
    const known = groups.get(key);
    if (known) known.rows.push(row);
    else groups.set(key, { values, rows: [row], total: 0 });
  }
  return [...groups.values()].map((one) => ({ ...one, total: one.rows.length }));
}

/** The first `most` rows of groups, without the groups that have none of them. */
export function firstOf(groups: readonly RowGroup[], most: number): RowGroup[] {
  const shown: RowGroup[] = [];
  let room = most;
  for (const group of groups) {
    if (room <= 0) break;
    shown.push({ ...group, rows: group.rows.slice(0, room) });
    room -= group.rows.length;
  }
  return shown;
}

/** The row `by` places further; if there is none, the nearest. From nowhere: the first or the last. */
export function stepFrom(order: readonly string[], from: string | undefined, by: 1 | -1): string | undefined {
  const at = from === undefined ? -1 : order.indexOf(from);
  if (at < 0) return by > 0 ? order[0] : order.at(-1);
  return order[Math.min(order.length - 1, Math.max(0, at + by))];
}

/**
 * The request that opens once one is decided: the one below it in the last order that had it, otherwise the one above.
 */
export function nextAfter(order: readonly string[], decided: string, around = order): string | undefined {
  const at = around.indexOf(decided);
  const left = (key: string) => key !== decided && order.includes(key);
  return around.slice(at + 1).find(left) ?? around.slice(0, Math.max(0, at)).findLast(left) ?? order.find(left);
}
