/**
 * A session in reading order.
 *
 * An assistant message stays open through a whole turn, and a person may speak meanwhile: a reviewer's
 * comment, or a queued message. The agent's work after that belongs below it, so the
 * assistant's message is cut there into parts.
 */
import type { BlockView, MessageView, SessionView } from "./view.js";

export interface TimelinePart {
  key: string;
  message: MessageView;
  /** The blocks of this part; the same array as the message's own if it is not cut. */
  blocks: BlockView[];
}

export function timeline(view: SessionView): TimelinePart[] {
  return view.messages.flatMap((message, i): TimelinePart[] => {
    if (message.role === "user") {
      return isInside(message, view.messages, i) ? [] : [whole(message)];
    }
    const inside: MessageView[] = [];
    // Only until the next turn: everything after that came later.
    for (let j = i + 1; view.messages[j]?.role === "user"; j++) {
      if (isWithin(view.messages[j]!, message)) inside.push(view.messages[j]!);
    }
    return inside.length === 0 ? [whole(message)] : cut(message, inside);
  });
}

const whole = (message: MessageView): TimelinePart => ({ key: message.id, message, blocks: message.blocks });

/** A user message that came while this assistant message was open, with more blocks after it. */
function isWithin(user: MessageView, assistant: MessageView): boolean {
  return user.role === "user" && user.seq > assistant.seq && user.seq < (assistant.blocks.at(-1)?.seq ?? 0);
}

function isInside(user: MessageView, messages: MessageView[], at: number): boolean {
  for (let i = at - 1; i >= 0; i--) {
    const message = messages[i]!;
    if (message.role === "assistant") return isWithin(user, message);
  }
  return false;
}

function cut(message: MessageView, inside: MessageView[]): TimelinePart[] {
  const parts: TimelinePart[] = [];
  let from = -1;
  const part = (to: number) => {
    const blocks = message.blocks.filter((b) => b.seq > from && b.seq < to);
    if (blocks.length > 0) parts.push({ key: `${message.id}@${blocks[0]!.seq}`, message, blocks });
    from = to;
  };
  for (const user of inside) {
    part(user.seq);
    parts.push(whole(user));
  }
  part(Number.POSITIVE_INFINITY);
  return parts;
}
