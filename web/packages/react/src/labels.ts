/** The words of the cards. */
import type { ApprovalView, DecisionType } from "@countersign/client";

export interface Labels {
  /** The choices about a call. */
  choices: Record<DecisionType, string>;
  /** What the model says a call is for; nobody has checked it. */
  agentSays: string;
  /** Over what a call would do. */
  preview: string;
  /** Of the fields that a choice opens. */
  reason: string;
  args: string;
  result: string;
  comment: string;
  /** Of an answer to a node of a graph, in JSON. */
  answer: string;
  noPreference: string;
  ownAnswer: string;
  send: string;
  decline: string;
  sending: string;
  sent: string;
  until: string;
  /** What is missing before it can be sent. */
  choose: string;
  write: string;
  notJson: string;
  /** The questions could not be read. */
  unreadable: string;
  waitingFor: (role: string | undefined) => string;
  progress: (approved: number, quorum: number) => string;
  inDoubt: string;
  /** How it ended, and by whom. */
  resolved: (approval: ApprovalView) => string;
}

const how = { decided: "Decided", timeout: "Nobody decided in time", cancelled: "Cancelled" };
const done: Record<DecisionType, string> = {
  approve: "Approved",
  reject: "Rejected",
  edit: "Approved with other arguments",
  respond: "Result given",
  defer: "Left for later",
};

export const english: Labels = {
  choices: { approve: "Approve", reject: "Reject", edit: "Edit", respond: "Give the result", defer: "Later" },
  agentSays: "The agent says (not checked)",
  preview: "What it would do",
  reason: "Reason for the agent",
  args: "Arguments, as JSON",
  result: "Result of the call",
  comment: "Message to the agent",
  answer: "Answer, as JSON",
  noPreference: "No preference",
  ownAnswer: "Your answer",
  send: "Send",
  decline: "Decline to answer",
  sending: "Sending…",
  sent: "Sent.",
  until: "Until",
  choose: "Choose for every call.",
  write: "Write your answer, or choose another one.",
  notJson: "This is not valid JSON",
  unreadable: "These questions cannot be shown.",
  waitingFor: (role) => (role === undefined ? "Waiting for the owner of the session" : `Waiting for ${role}`),
  progress: (approved, quorum) => `${approved} of ${quorum} have approved`,
  inDoubt: "This may have run already: its outcome is unknown. Approve to run it again.",
  resolved: ({ resolution = "decided", by, answers, decisions }) => {
    const words = answers ? ["Answered"] : [...new Set(decisions?.map((decision) => done[decision.type]))];
    const what = resolution === "decided" && words.length > 0 ? words.join(", ") : how[resolution];
    return by ? `${what} by ${by}` : what;
  },
};
