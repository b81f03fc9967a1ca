"use client"; // For frameworks that also draw on the server: everything here has state.
export { CountersignProvider, useCountersign, type Countersign } from "./context.js";
export { useConnection, useSession, type CardReply, type Session } from "./useSession.js";
export { useInbox, type Inbox, type InboxOptions } from "./useInbox.js";
export { useReply, type CardProps, type OnReply, type Replying } from "./useReply.js";
export { ApprovalCard } from "./ApprovalCard.js";
export { QuestionCard, ResolvedQuestionBlock } from "./QuestionCard.js";
export { english, type Labels } from "./labels.js";
