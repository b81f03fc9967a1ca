/** How a request ended, according to the refusal of a later reply. */
import { CountersignError, isObject, type Answers, type ApprovalView, type Decision } from "@countersign/client";
import type { Texts } from "./labels.js";

export type Ending = Pick<ApprovalView, "resolution" | "reason" | "by" | "answers" | "decisions" | "resume">;

/** Whether somebody else, or the deadline, was first. */
export const isLate = (error: unknown): error is CountersignError<"approval_already_resolved"> => CountersignError.is(error, "approval_already_resolved");

/** The content of `details` in such a refusal. */
export function endingOf({ details: { resolution, reason, by, answers, decisions, resume } = {} }: CountersignError): Ending {
  return {
    resolution: typeof resolution === "string" ? resolution : "decided",
    ...(typeof reason === "string" ? { reason } : {}),
    ...(typeof by === "string" ? { by } : {}),
    ...(isObject(answers) ? { answers: answers as Answers } : {}),
    ...(Array.isArray(decisions) ? { decisions: decisions as unknown as Decision[] } : {}),
    ...(resume === undefined ? {} : { resume }),
  };
}

/** Such an ending in words, if it is known here, and why nobody answered. */
export function endText(how: Readonly<Record<string, string>>, texts: Texts, resolution: string, reason = ""): string | undefined {
  const why = resolution === "cancelled" ? (texts as Record<string, string>)[`withdrawn.${reason}`] : undefined;
  return why === undefined ? how[resolution] : how[resolution] + texts["text.colon"] + why;
}

/** The request as it ended; its own events say more, once they are here. */
export function ended<A extends ApprovalView>(approval: A, error: CountersignError): A {
  return approval.resolution === undefined ? { ...approval, ...endingOf(error) } : approval;
}
