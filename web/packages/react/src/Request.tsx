/** One request: the one way to reply to it, what is drawn while it waits, and once it is over. */
import type { ComponentType, ReactNode } from "react";
import type { ApprovalView } from "@countersign/client";
import type { Problem } from "./arguments/Problems.js";
import { useCountersign } from "./context.js";
import { draftKey } from "./draftKey.js";
import { ended } from "./ended.js";
import { Frame as OwnFrame, Resolved as OwnResolved } from "./Frame.js";
import { useLate } from "./late.js";
import { useReply, type OnReply, type Replying } from "./useReply.js";

/** What stands around a request that waits. */
export interface FrameProps {
  approval: ApprovalView;
  replying: Replying;
  className?: string | undefined;
  /** What keeps it from being sent, in words for people. */
  problem?: string | undefined;
  /** What the server found wrong with what was sent, one by one. */
  problems?: Problem[] | undefined;
  /**
   * What a node of a graph or an MCP server asks, and questions that cannot be read: nothing of calls, nor of other questions, which stand
   * with their choices.
   */
  asked?: ReactNode;
  /**
   * The means to reply, which whoever may only look does not need. Where there is no `asked` they are all that is shown of the request: a frame
   * that leaves them out says itself what is asked.
   */
  children: ReactNode;
}

/** What became of a request. */
export interface ResolvedProps {
  approval: ApprovalView;
  /** What this tab has sent last, or why that came too late: `error`, until `clearError`. */
  replying: Replying;
  className?: string | undefined;
  /** What was asked, and answered or decided. */
  children?: ReactNode;
}

/** A request that waits, whole, and only for as long as it shows the same. */
export interface PendingProps {
  approval: ApprovalView;
  replying: Replying;
  className?: string | undefined;
  Frame: ComponentType<FrameProps>;
}

/** The parts of the cards that a page may draw itself. */
export interface CardComponents {
  /** Around every request that waits. */
  Frame: ComponentType<FrameProps>;
  /** In place of every request that is over. */
  Resolved: ComponentType<ResolvedProps>;
  /** A request for decisions about calls, with its frame; `useDecisions` has what it needs. */
  Decisions: ComponentType<PendingProps>;
}

export interface CardProps {
  approval: ApprovalView;
  /** Sends the reply; by the connection of the provider if absent. */
  onReply?: OnReply | undefined;
  className?: string | undefined;
  /** Parts of the page's own. Keep the object the same: another component begins anew. */
  components?: Partial<CardComponents> | undefined;
}

interface Props extends CardProps {
  Waiting: ComponentType<PendingProps>;
  /** What is shown of it once it is over. */
  Outcome: ComponentType<Pick<CardProps, "approval">>;
}

/** To be drawn with the request's key as its own. */
export function Request({ approval: known, onReply, className, components = {}, Waiting, Outcome }: Props) {
  const replying = useReply(known, onReply);
  const { Frame = OwnFrame, Resolved = OwnResolved } = components;
  // A refusal says it before the events do, and lists never do.
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
  // What was entered, and seen, belongs to what is shown: under the same key there can be other calls later.
  return <Waiting key={draftKey(approval)} {...shared} Frame={Frame} />;
}
