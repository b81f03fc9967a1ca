/** Failed turns. A retried one continues in another message of the agent. */
import { pendingApprovals, toolArgs, type BlockView, type MessageView, type SessionView } from "@countersign/client";
import { callsOf } from "./calls.js";

/** The state of a turn that does not continue by itself. */
export type End =
  | "ended"
  /** It was stopped, or failed and was given up. */
  | "cut"
  /** It has failed, and can be tried again. */
  | "failed";

/** The agent's messages of each turn that has more than one, by the id of each of them. */
export function longTurns(messages: readonly MessageView[]): ReadonlyMap<string, readonly MessageView[]> {
  const found = new Map<string, MessageView[]>();
  let turn: MessageView[] | undefined;
  for (const message of messages) {
    if (message.role === "user") continue;
    if (turn) {
      turn.push(message);
      for (const { id } of turn) found.set(id, turn);
    }
    turn = hasFailed(message) ? (turn ?? [message]) : undefined;
  }
  return found;
}

/** Whether the message ended with a failure of its turn. */
export const hasFailed = ({ stopReason }: MessageView): boolean => stopReason === "error" || stopReason === "max_turns";

/** Whether the turn has failed with work that a retry would do, and a new message abandons. */
export function isLeft(view: SessionView): boolean {
  if (view.status !== "failed") return false;
  if (pendingApprovals(view).length > 0) return true;
  const last = view.messages.findLast((m) => m.role === "assistant");
  const turn = last && (longTurns(view.messages).get(last.id) ?? [last]);
  const blocks = turn?.flatMap((m) => m.blocks) ?? [];
  const { results } = callsOf(blocks);
  return blocks.some((b) => b.type === "tool_use" && isWhole(b) && !results.has(b.seq));
}

/** Whether the model has finished the call. */
export function isWhole(use: Extract<BlockView, { type: "tool_use" }>): boolean {
  return !use.replaced && !use.open && toolArgs(use) !== undefined;
}
