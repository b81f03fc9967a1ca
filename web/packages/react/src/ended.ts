/** How a request ended, according to the refusal of a later reply. */
import { CountersignError, isObject, type Answers, type ApprovalView, type Decision } from "@countersign/client";
import { editApproves } from "./forms/editApproves.js";
import type { Texts } from "./labels.js";

/** `reviewConfigs`: if known, they say whether an edit approved the edited call. */
export type Ending = Pick<ApprovalView, "resolution" | "reason" | "by" | "answers" | "decisions" | "resume"> & Partial<Pick<ApprovalView, "reviewConfigs">>;

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

/** The kinds of its decisions, each once; `changed`: an edit after which people are asked again; `edited`: one of which that is not known. */
export function kindsOf({ decisions = [], reviewConfigs }: Ending): string[] {
  const kind = (i: number) => (!reviewConfigs ? "edited" : editApproves(reviewConfigs[i] ?? {}) ? "edit" : "changed");
  return [...new Set(decisions.map(({ type }, i) => (type === "edit" ? kind(i) : type)))];
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
