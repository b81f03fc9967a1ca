/** How a request ended, as the refusal of a later reply says it. */
import { CountersignError, isObject, type Answers, type ApprovalView, type Decision } from "@countersign/client";

export type Ending = Pick<ApprovalView, "resolution" | "by" | "answers" | "decisions" | "resume">;

/** Whether somebody else, or the deadline, was first. */
export const isLate = (error: unknown): error is CountersignError<"approval_already_resolved"> => CountersignError.is(error, "approval_already_resolved");

/** What `details` of such a refusal say. */
export function endingOf({ details: { resolution, by, answers, decisions, resume } = {} }: CountersignError): Ending {
  return {
    resolution: typeof resolution === "string" ? resolution : "decided",
    ...(typeof by === "string" ? { by } : {}),
    ...(isObject(answers) ? { answers: answers as Answers } : {}),
    ...(Array.isArray(decisions) ? { decisions: decisions as unknown as Decision[] } : {}),
    ...(resume === undefined ? {} : { resume }),
  };
}

/** The request as it ended; its own events say more, once they are here. */
export function ended<A extends ApprovalView>(approval: A, error: CountersignError): A {
  return approval.resolution === undefined ? { ...approval, ...endingOf(error) } : approval;
}
