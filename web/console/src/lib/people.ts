/** Who has to decide, in words, and whether the person at this tab may. The server has the last word. */
import { assigned, decidingRole, progress, type ApprovalView, type DecisionType } from "@countersign/client";
import { roleName, visibleText } from "@countersign/react";
import type { Translate } from "../i18n/index.js";

export { roleName };

export function personName(name: string | undefined, t: Translate): string {
  return name === undefined ? t("people.somebody") : visibleText(name);
}

/** Who decides a request now, in words. */
export function deciderName(approval: ApprovalView, t: Translate): string {
  const { subject } = assigned(approval);
  return subject === undefined ? roleName(decidingRole(approval), t) : visibleText(subject);
}

/** The person who uses this tab. Without a name nobody has to sign in, and anybody may do anything. */
export interface Me {
  name: string | undefined;
  roles: readonly string[];
}

/**
 * Why a person may not approve a request. `role`: others decide it now, so this person may not reject it either.
 * `asked`, `spoke`, `edited`: they requested it, spoke before it was made, or changed it. `voted`, `step`: they have
 * approved it already, at this step or at an earlier one.
 */
export type Bar = "role" | "asked" | "spoke" | "edited" | "voted" | "step";

/** Whether a bar blocks a choice: `role` blocks all of them, the others only those that let a call run. */
export function isBarred(bar: Bar | undefined, choice: DecisionType): boolean {
  if (bar === undefined || bar === "role") return bar !== undefined;
  if (bar === "voted") return choice === "approve";
  return choice === "approve" || choice === "respond" || (choice === "edit" && bar !== "edited");
}

/**
 * Whether this person may reassign a request: every holder of the role may, even if it is now assigned to one other
 * person.
 */
export function mayHand(approval: ApprovalView, { me, subject }: Case): boolean {
  const role = decidingRole(approval);
  return me.name === undefined || (role === undefined ? me.name === subject : me.roles.includes(role));
}

/** The facts that the rules use. */
export interface Case {
  me: Me;
  /** Whose session it is. */
  subject: string | undefined;
}

/** A person's earlier actions in the session. */
export interface Did {
  /** Whether they have approved one of the calls, since it was last requested from the first level. */
  approved: () => boolean;
  edited: () => boolean;
  spoke: () => boolean;
}

/** Without `did`: from the request alone. With it: see `barIn`. */
export function barOf(approval: ApprovalView, { me, subject }: Case, did?: Did): Bar | undefined {
  const role = decidingRole(approval);
  const person = assigned(approval).subject;
  const named = me.name !== undefined;
  const owns = !named || me.name === subject;
  if (!mayHand(approval, { me, subject }) || (named && person !== undefined && person !== me.name)) return "role";
  const votes = progress(approval);
  if (named && votes?.by.includes(me.name!)) return "voted";
  // A person who has let a call run again may still reject it.
  if (did?.approved()) return approval.kind === "in_doubt" ? "voted" : "step";
  if (role === undefined || !approval.reviewConfigs.some((c) => c.not_self)) return undefined;
  if (owns) return "asked";
  if (did?.spoke()) return "spoke";
  return did?.edited() ? "edited" : undefined;
}
