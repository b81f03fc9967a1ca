import type { ApprovalView } from "@countersign/client";

/** The roles to which it may be handed: those that the policy names, and back to its own reviewer's. */
export function handTo({ reviewConfigs: [config], escalatedFrom }: Pick<ApprovalView, "reviewConfigs" | "escalatedFrom">): string[] {
  const { levels, level = 1, role, reassign = [] } = config ?? {};
  const own = levels?.[level - 1] ?? (escalatedFrom === undefined ? role : undefined);
  return own === undefined || reassign.includes(own) ? reassign : [...reassign, own];
}
