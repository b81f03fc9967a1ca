/** The calls of a turn. A model may give calls of different answers the same id, so each is known by its block's `seq`. */
import type { BlockView } from "@countersign/client";

type ToolResult = Extract<BlockView, { type: "tool_result" }>;

export interface Calls {
  /** Their ids. */
  uses: ReadonlySet<string>;
  /** By the `seq` of their call. */
  results: ReadonlyMap<number, ToolResult>;
  /** The call that wrote the to-do list as it is now, by its `seq`. */
  newestTodos: number | undefined;
}

/** The calls in these blocks. A result is that of the newest call with its id: each has one before the model answers again. */
export function callsOf(blocks: readonly BlockView[]): Calls {
  const uses = new Map<string, number>();
  const results = new Map<number, ToolResult>();
  let newestTodos: number | undefined;
  for (const b of blocks) {
    const of = b.type === "tool_result" ? uses.get(b.toolUseId) : undefined;
    if (b.type === "tool_result" && of !== undefined) results.set(of, b);
    if (b.type !== "tool_use" || b.replaced) continue;
    uses.set(b.id, b.seq);
    if (b.name === "write_todos") newestTodos = b.seq;
  }
  return { uses: new Set(uses.keys()), results, newestTodos };
}
