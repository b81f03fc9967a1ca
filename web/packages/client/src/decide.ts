/** Turns a person's choice about a call into the decision that is sent, and says what a request allows. */
import { equalJson, type JsonObject } from "./json.js";
import type { Action, Always, Decision, DecisionType, ReviewConfig } from "./protocol.js";
import type { ApprovalView } from "./view.js";

/** Whether it waits for an answer, not for a decision. */
export function isAnswered({ kind }: Pick<ApprovalView, "kind">): boolean {
  return kind === "question" || asksForValue({ kind });
}

/** Whether any JSON value may be the answer: a node of a graph asks, or a tool. */
export function asksForValue({ kind }: Pick<ApprovalView, "kind">): boolean {
  return kind === "interrupt" || kind === "input";
}

export function configOf(approval: ApprovalView, index: number): ReviewConfig {
  return approval.reviewConfigs[index] ?? {};
}

const KNOWN: readonly string[] = ["approve", "reject", "edit", "respond", "defer"] satisfies DecisionType[];

/** A server that says nothing allows the two basic ones. Further decisions of a newer server cannot be made here. */
export function allowedOf(config: ReviewConfig): DecisionType[] {
  const allowed: readonly string[] = config.allowed_decisions ?? ["approve", "reject"];
  return allowed.filter((type): type is DecisionType => KNOWN.includes(type));
}

/** The decision that applied to an action: missing ones take the first. */
export function decisionFor(decisions: Decision[] | undefined, index: number): Decision | undefined {
  return decisions?.[index] ?? decisions?.[0];
}

/** A person's choice about a call, and the input for it. */
export interface Chosen {
  choice?: DecisionType | undefined;
  /** Of a reject. */
  reason: string;
  /** The result that a person supplies. */
  output: string;
  /** Of an edit; nothing while they cannot be read. */
  args?: JsonObject | undefined;
  /** The same for later calls. */
  always?: Always | undefined;
}

/**
 * The decision about a call; `undefined` while there is none, or its edit cannot be read. It names what was shown, so
 * that it counts for nothing else.
 */
export function decisionOf(action: Action, config: ReviewConfig, chosen: Chosen): Decision | undefined {
  const digest = {
    ...(action.args_digest === undefined ? {} : { args_digest: action.args_digest }),
    ...(action.digest === undefined ? {} : { digest: action.digest }),
  };
  const always = chosen.always === undefined ? {} : { always: chosen.always };
  switch (chosen.choice) {
    case "approve":
      return { type: "approve", ...always, ...digest };
    case "defer":
      return { type: "defer", ...digest };
    case "reject": {
      const message = chosen.reason.trim();
      return { type: "reject", ...(message ? { message } : {}), ...always, ...digest };
    }
    case "respond":
      return { type: "respond", output: chosen.output, ...digest };
    case "edit": {
      const { args } = chosen;
      if (!args) return undefined;
      // An edit that changes nothing is an approval, and is recorded as one.
      if (equalJson(args, action.args) && allowedOf(config).includes("approve")) return { type: "approve", ...digest };
      return { type: "edit", edited_action: { name: action.name, args }, ...digest };
    }
    default:
      return undefined;
  }
}
