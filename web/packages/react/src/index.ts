"use client"; // For frameworks that also draw on the server: everything here has state.
export { CountersignProvider, useCountersign, type ClassNames, type Countersign } from "./context.js";
export { sessionsOf, type Sessions, type SessionState } from "./sessions.js";
export { useConnection, useSession, useSessionState, type Session } from "./useSession.js";
export { useInbox, type Inbox, type InboxOptions } from "./useInbox.js";
export { forgetVotes, useReply, type CardProps, type CardReply, type OnReply, type Replying } from "./useReply.js";
export { useEditPreview, type EditPreviewing } from "./useEditPreview.js";
export { keepDraft, readDraft, useDraft } from "./useDraft.js";
export { ApprovalCard } from "./ApprovalCard.js";
export { QuestionCard, ResolvedQuestionBlock } from "./QuestionCard.js";
export { QuestionForm, type QuestionFormProps } from "./QuestionForm.js";
export { AnswerList, type AnswerListProps } from "./AnswerList.js";
export { shownArgs } from "./drafts.js";
export { answerText, type QuestionDraft } from "./questions.js";
export { Visible } from "./Visible.js";
export { hasHidden, segments, showDirectionMarks, visibleText, type Segment } from "./visibleText.js";
export { english, type Labels, type QuestionLabels } from "./labels.js";
