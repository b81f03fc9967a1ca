/** The words of the cards. */
import { useContext, useMemo } from "react";
import type { ApprovalView, CountersignError, DecisionType, EditPreview } from "@countersign/client";
import { Parts, Words } from "./context.js";

/** The words of questions. */
export interface QuestionLabels {
  /** Which of several it is, for screen readers. */
  place: (n: number, of: number) => string;
  /** More than one may be chosen. */
  several: string;
  skipped: string;
  noPreference: string;
  /** In the field of an answer of one's own, and what names that field. */
  own: string;
  ownFor: (option: string) => string;
  /** What is missing before it can be sent. */
  choose: string;
  write: string;
  /** The buttons: after one question, after the last of several, after the review, and the others. */
  next: string;
  review: string;
  send: string;
  sendAll: string;
  back: string;
  skip: string;
  decline: string;
  /** Of declining, for the agent. */
  reason: string;
  reasonPlaceholder: string;
  /** Over all answers, and the button at each that leads back to it. */
  reviewHeading: string;
  change: string;
  changeOne: (question: string) => string;
}

export interface Labels {
  /** The choices about a call. */
  choices: Record<DecisionType, string>;
  /** What the model says a call is for; nobody has checked it. */
  agentSays: string;
  /** Over what a call would do. */
  preview: string;
  /** While the server is asked about an edit. */
  checking: string;
  /** What an edit would lead to, once that is known; its refusal is said by `error`. */
  leadsTo: (preview: EditPreview) => string;
  /** Asks about the edit again, where that has failed. */
  again: string;
  /** Of the fields that a choice opens. */
  reason: string;
  args: string;
  result: string;
  comment: string;
  /** Of an answer to a node of a graph, in JSON. */
  answer: string;
  questions: QuestionLabels;
  send: string;
  sending: string;
  sent: string;
  /** This tab has approved what more people must approve. */
  voted: string;
  until: string;
  /** What is missing before it can be sent. */
  choose: string;
  notJson: string;
  /** The questions could not be read. */
  unreadable: string;
  waitingFor: (role: string | undefined) => string;
  progress: (approved: number, quorum: number) => string;
  inDoubt: string;
  /** A refusal, for people; its own words are English. */
  error: (error: CountersignError) => string;
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
  checking: "Checking these arguments…",
  leadsTo: ({ outcome, reviewConfig: { role } = {} }) =>
    outcome === "asks" ? `These arguments need approval${role === undefined ? "" : ` by ${role}`}.` : "These arguments can be approved.",
  again: "Try again",
  reason: "Reason for the agent",
  args: "Arguments, as JSON",
  result: "Result of the call",
  comment: "Message to the agent",
  answer: "Answer, as JSON",
  questions: {
    place: (n, of) => `Question ${n} of ${of}`,
    several: "Choose one or more.",
    skipped: "Skipped. Choose an option to answer after all.",
    noPreference: "No preference",
    own: "Your answer",
    ownFor: (option) => `Your answer for “${option}”`,
    choose: "Choose an answer, or skip this question.",
    write: "Write your answer, or choose another option.",
    next: "Next",
    review: "Review answers",
    send: "Send answer",
    sendAll: "Send answers",
    back: "Back",
    skip: "Skip",
    decline: "Do not answer",
    reason: "Reason for the agent",
    reasonPlaceholder: "For example: decide for yourself",
    reviewHeading: "Your answers",
    change: "Change",
    changeOne: (question) => `Change the answer to: ${question}`,
  },
  send: "Send",
  sending: "Sending…",
  sent: "Sent.",
  voted: "You have approved.",
  until: "Until",
  choose: "Choose for every call.",
  notJson: "This is not valid JSON",
  unreadable: "These questions cannot be shown.",
  waitingFor: (role) => (role === undefined ? "Waiting for the owner of the session" : `Waiting for ${role}`),
  progress: (approved, quorum) => `${approved} of ${quorum} have approved`,
  inDoubt: "This may have run already, and may still be running: its outcome is unknown. Approve to run it again.",
  error: ({ code, message }) => message || code,
  resolved: ({ resolution = "decided", by, answers, decisions }) => {
    const words = answers ? ["Answered"] : [...new Set(decisions?.map((decision) => done[decision.type]))];
    const what = resolution === "decided" && words.length > 0 ? words.join(", ") : how[resolution];
    return by ? `${what} by ${by}` : what;
  },
};

/** The words of the provider above, English where it has none. */
export function useLabels(): Labels {
  const labels = useContext(Words);
  return useMemo(() => ({ ...english, ...labels }), [labels]);
}

/** The words of questions, and what marks their parts. */
export function useQuestionWords() {
  return { words: useLabels().questions, part: useContext(Parts) };
}
