/** Who has to decide, in words, and whether the person at this tab may. The server says it in the end. */
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

/** Who uses this tab. Without a name nobody has to say who they are, and anybody may do anything. */
export interface Me {
  name: string | undefined;
  roles: readonly string[];
}

/**
 * Why a person may not say yes to a request. `role`: others decide it now, so they may not say no either. They asked
 * for it, spoke before it was asked, or changed it, and so may not approve it; or they have approved it already, now
 * or at a step before.
 */
export type Bar = "role" | "asked" | "spoke" | "edited" | "voted" | "step";

/** Whether a bar is in the way of a choice: but for who may not decide at all, only of those that let a call run. */
export function isBarred(bar: Bar | undefined, choice: DecisionType): boolean {
  if (bar === undefined || bar === "role") return bar !== undefined;
  if (bar === "voted") return choice === "approve";
  return choice === "approve" || choice === "respond" || (choice === "edit" && bar !== "edited");
}

/** Whether this person may hand a request to somebody else: whoever holds the role may, even if it is now one other's. */
export function mayHand(approval: ApprovalView, { me, subject }: Case): boolean {
  const role = decidingRole(approval);
  return me.name === undefined || (role === undefined ? me.name === subject : me.roles.includes(role));
}

/** What the rules look at. */
export interface Case {
  me: Me;
  /** Whose session it is. */
  subject: string | undefined;
}

/** What a person has done in the session before they are asked about the calls. */
export interface Did {
  /** Approved one of them, since it was last asked about from the start. */
  approved: () => boolean;
  edited: () => boolean;
  spoke: () => boolean;
}

/** Without what they did: as far as the request alone tells. With it: `barIn`. */
export function barOf(approval: ApprovalView, { me, subject }: Case, did?: Did): Bar | undefined {
  const role = decidingRole(approval);
  const person = assigned(approval).subject;
  const named = me.name !== undefined;
  const owns = !named || me.name === subject;
  if (!mayHand(approval, { me, subject }) || (named && person !== undefined && person !== me.name)) return "role";
  const votes = progress(approval);
  if (named && votes?.by.includes(me.name!)) return "voted";
  // Whoever has let a call run again may still say that it shall not.
  if (did?.approved()) return approval.kind === "in_doubt" ? "voted" : "step";
  if (role === undefined || !approval.reviewConfigs.some((c) => c.not_self)) return undefined;
  if (owns) return "asked";
  if (did?.spoke()) return "spoke";
  return did?.edited() ? "edited" : undefined;
}
