/**
 * How many of a followed session's events have been emitted, and which ones are new: the server may send some of them
 * twice.
 */
import type { SessionEvent } from "./protocol.js";

type Numbered = Extract<SessionEvent, { seq: number }>;

export class Cursor {
  /** The highest `seq` that was emitted, or after which it was followed. */
  lastSeq: number;
  /** The `seq` from which it was followed. The start of a block that was open there is sent once more. */
  readonly #known: number;
  /** The blocks that have begun, and have not stopped. */
  readonly #open = new Set<string>();
  /** Those whose start was sent once more. */
  readonly #resent = new Set<string>();

  constructor(after: number) {
    this.lastSeq = this.#known = after;
  }

  /**
   * Whether to emit this event; if so, counts it as emitted. Two subscriptions are answered twice, so an event that was
   * emitted is dropped, except the start of an open block, which replaces the content so far.
   */
  takes(event: SessionEvent): boolean {
    if (event.type === "content_block_delta") return this.#open.has(blockOf(event));
    const seen = event.seq <= this.lastSeq;
    if (seen ? !this.#beginsAnew(event) : this.#endsUnseen(event)) return false;
    this.lastSeq = Math.max(this.lastSeq, event.seq);
    this.#keep(event);
    return true;
  }

  #beginsAnew(event: Numbered): boolean {
    if (event.type !== "content_block_start") return false;
    const block = blockOf(event);
    if (this.#open.has(block)) return true;
    if (event.seq > this.#known || this.#resent.has(block)) return false;
    this.#resent.add(block);
    return true;
  }

  /** It was on its way when the session was unsubscribed: the block is sent whole with its start. */
  #endsUnseen(event: Numbered): boolean {
    return event.type === "content_block_stop" && this.#known > 0 && !this.#open.has(blockOf(event));
  }

  #keep(event: Numbered): void {
    if (event.type === "content_block_start") this.#open.add(blockOf(event));
    else if (event.type === "content_block_stop") this.#open.delete(blockOf(event));
    // A turn can end in the middle of a block.
    else if (event.type === "message_stop") for (const block of this.#open) if (block.startsWith(`${event.message_id} `)) this.#open.delete(block);
  }
}

const blockOf = ({ message_id, index }: { message_id: string; index: number }) => `${message_id} ${index}`;
