/** Where a session that is followed stands, and which of its events are news: the server may send some of them twice. */
import type { SessionEvent } from "./protocol.js";

type Numbered = Extract<SessionEvent, { seq: number }>;

export class Place {
  /** The highest `seq` that was told, or that it was followed after. */
  lastSeq: number;
  /** Only so far it is known from elsewhere: the starts of its open blocks come once more. */
  readonly #known: number;
  /** The blocks that have begun, and have not stopped. */
  readonly #open = new Set<string>();

  constructor(after: number) {
    this.lastSeq = this.#known = after;
  }

  /** Whether anything of it was told. */
  get told(): boolean {
    return this.lastSeq > this.#known;
  }

  /**
   * Whether it is to be told, which it is then. What was told comes again where a session was subscribed to twice, of which each
   * time is answered; only a block that is open begins anew then, and replaces what there was of it.
   */
  takes(event: SessionEvent): boolean {
    if (event.type === "content_block_delta") return this.#open.has(blockOf(event));
    const seen = event.seq <= this.lastSeq;
    if (seen && !this.#beginsAnew(event)) return false;
    this.lastSeq = Math.max(this.lastSeq, event.seq);
    this.#keep(event);
    return true;
  }

  #beginsAnew(event: Numbered): boolean {
    return event.type === "content_block_start" && (this.#open.has(blockOf(event)) || !this.told);
  }

  #keep(event: Numbered): void {
    if (event.type === "content_block_start") this.#open.add(blockOf(event));
    else if (event.type === "content_block_stop") this.#open.delete(blockOf(event));
    // A turn can end in the middle of a block.
    else if (event.type === "message_stop") for (const block of this.#open) if (block.startsWith(`${event.message_id} `)) this.#open.delete(block);
  }
}

const blockOf = ({ message_id, index }: { message_id: string; index: number }) => `${message_id} ${index}`;
