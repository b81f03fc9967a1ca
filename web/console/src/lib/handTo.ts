import { decidingRole, type ApprovalView } from "@countersign/client";

/** The roles to which it may be handed: those that the policy names, and back to its own reviewer's. */
export function handTo(approval: ApprovalView): string[] {
  const { levels, level = 1, role, reassign = [] } = approval.reviewConfigs[0] ?? {};
  const own = levels?.[level - 1] ?? (approval.escalatedFrom === undefined ? role : undefined);
  const decides = decidingRole(approval) ?? "user";
  return own === undefined || own === decides || reassign.includes(own) ? reassign : [...reassign, own];
}
