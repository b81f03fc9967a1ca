/** One request: the only way to reply to it, and what is rendered while it is pending and once it is over. */
import type { ComponentType, ReactNode } from "react";
import type { ApprovalView } from "@countersign/client";
import type { Problem } from "./arguments/Problems.js";
import { useCountersign } from "./context.js";
import { draftKey } from "./draftKey.js";
import { ended } from "./ended.js";
import { Frame as OwnFrame, Resolved as OwnResolved } from "./Frame.js";
import { useLate } from "./late.js";
import type { OnReply } from "./replies.js";
import { useReply, type Replying } from "./useReply.js";

/** The props of the frame around a pending request. */
export interface FrameProps {
  approval: ApprovalView;
  replying: Replying;
  className?: string | undefined;
  /** Why it cannot be sent, in words for people. */
  problem?: string | undefined;
  /** The problems that the server found with the sent reply, one by one. */
  problems?: Problem[] | undefined;
  /**
   * The question of a graph's node or an MCP server, and questions that cannot be read. Absent for calls, and for other
   * questions, which are shown with their choices.
   */
  asked?: ReactNode;
  /**
   * The means to reply, which a person who may only look does not need. Without `asked` they are all that is shown of
   * the request: a frame that leaves them out must say itself what is asked.
   */
  children: ReactNode;
}

/** The props of a resolved request. */
export interface ResolvedProps {
  approval: ApprovalView;
  /** The last reply of this tab, or why it came too late: `error`, until `clearError`. */
  replying: Replying;
  className?: string | undefined;
  /** The question or request, and the answer or decision. */
  children?: ReactNode;
}

/** A pending request, complete, and only for as long as its content stays the same. */
export interface PendingProps {
  approval: ApprovalView;
  replying: Replying;
  className?: string | undefined;
  Frame: ComponentType<FrameProps>;
}

/** The parts of the cards that a page may replace. */
export interface CardComponents {
  /** Around every pending request. */
  Frame: ComponentType<FrameProps>;
  /** In place of every request that is over. */
  Resolved: ComponentType<ResolvedProps>;
  /** A request for decisions about calls, with its frame; `useDecisions` has what it needs. */
  Decisions: ComponentType<PendingProps>;
}

export interface CardProps {
  approval: ApprovalView;
  /** Sends the reply; the default is the provider's connection. */
  onReply?: OnReply | undefined;
  className?: string | undefined;
  /** The page's own parts. Keep the same object: another component is mounted again. */
  components?: Partial<CardComponents> | undefined;
}

interface Props extends CardProps {
  Waiting: ComponentType<PendingProps>;
  /** The content once it is over. */
  Outcome: ComponentType<Pick<CardProps, "approval">>;
}

/** Render it with the request's key as its `key`. */
export function Request({ approval: known, onReply, className, components = {}, Waiting, Outcome }: Props) {
  const replying = useReply(known, onReply);
  const { Frame = OwnFrame, Resolved = OwnResolved } = components;
  // A refusal reports the end before the events do, and lists never do.
  const late = useLate(useCountersign().client).get(draftKey(known));
  const approval = late ? ended(known, late.error) : known;
  const shared = { approval, replying, className };
  if (approval.resolution !== undefined) {
    return (
      <Resolved {...shared}>
        <Outcome approval={approval} />
      </Resolved>
    );
  }
  if (!approval.complete) return null;
  // The input, and what was seen, belong to the content shown: there can be other calls under the same key later.
  return <Waiting key={draftKey(approval)} {...shared} Frame={Frame} />;
}
