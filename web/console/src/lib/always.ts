/** Decisions that also apply to later calls: a person's choice, and what is sent. */
import { allowedOf, configOf, progress, type Always, type ApprovalView, type DecisionType } from "@countersign/client";

export const scopes = ["session", "arguments", "tool"] as const;
export type Scope = (typeof scopes)[number];
export type AlwaysChoice = "approve" | "reject";

/** A person's input. `until` is a day, in the format of a date field. */
export interface AlwaysDraft {
  choice: AlwaysChoice;
  scope: Scope;
  until: string;
}

export type AlwaysResult = { ok: true; always: Always } | { ok: false; error: "always.pickDate" | "always.past" };

/** The end of that day on this machine's clock. */
export function endOfDay(day: string): Date {
  return new Date(`${day}T23:59:59`);
}

export function readAlways({ scope, until }: AlwaysDraft, now: number): AlwaysResult {
  if (scope === "session") return { ok: true, always: { scope } };
  if (until === "") return scope === "arguments" ? { ok: true, always: { scope } } : { ok: false, error: "always.pickDate" };
  const end = endOfDay(until);
  if (Number.isNaN(end.getTime())) return { ok: false, error: "always.pickDate" };
  if (end.getTime() <= now) return { ok: false, error: "always.past" };
  return { ok: true, always: { scope, until: end.toISOString() } };
}

/** A rule replaces one person: it cannot approve a call that several people, or somebody else, must approve. */
export function alwaysChoices(approval: ApprovalView, index: number, barred: (choice: DecisionType) => boolean): AlwaysChoice[] {
  if (approval.kind !== "approval") return [];
  const config = configOf(approval, index);
  const elsewhere = approval.escalatedFrom !== undefined || approval.updates.some((u) => u.update === "reassigned" && u.role);
  const one = !progress(approval) && (config.levels?.length ?? 1) <= 1 && !elsewhere;
  return (["approve", "reject"] as const).filter(
    (choice) => allowedOf(config).includes(choice) && !barred(choice) && (choice === "reject" || one),
  );
}
