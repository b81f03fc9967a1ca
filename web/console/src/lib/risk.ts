/** What is at stake in a request. */
import type { ApprovalView } from "@countersign/client";

const RISING: readonly string[] = ["low", "medium", "high"];

/** One that a newer server names stands above those that are known: it is not hidden behind them. */
const rank = (risk: string) => (RISING.includes(risk) ? RISING.indexOf(risk) : RISING.length);

/** The highest of its calls, whichever of them that is. */
export function riskOf({ reviewConfigs }: Pick<ApprovalView, "reviewConfigs">): string | undefined {
  const all = reviewConfigs.flatMap(({ risk }) => risk ?? []);
  return all.reduce<string | undefined>((highest, risk) => (highest === undefined || rank(risk) > rank(highest) ? risk : highest), undefined);
}
