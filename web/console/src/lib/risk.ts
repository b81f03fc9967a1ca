/** The risk of a request. */
import type { ApprovalView } from "@countersign/client";

const RISING: readonly string[] = ["low", "medium", "high"];

/** An unknown level of a newer server ranks above the known ones: it is not hidden behind them. */
const rank = (risk: string) => (RISING.includes(risk) ? RISING.indexOf(risk) : RISING.length);

/** The highest risk among its calls. */
export function riskOf({ reviewConfigs }: Pick<ApprovalView, "reviewConfigs">): string | undefined {
  const all = reviewConfigs.flatMap(({ risk }) => risk ?? []);
  return all.reduce<string | undefined>((highest, risk) => (highest === undefined || rank(risk) > rank(highest) ? risk : highest), undefined);
}
