/** A message's blocks as they are laid out: some by themselves, runs of steps in their groups. */
import type { BlockView, GroupView } from "@countersign/client";

export type Segment =
  | { key: string; block: BlockView }
  | { key: string; group: GroupView; blocks: BlockView[] }
  /** The content of an answer that broke off. */
  | { key: string; replaced: BlockView[] };

/** `calls`: the ids of all calls of the message, which may have been cut into parts. */
export function layOut(blocks: BlockView[], groups: Record<string, GroupView>, calls: ReadonlySet<string>): Segment[] {
  const found: Segment[] = [];
  for (const block of blocks) {
    if (!isShown(block, calls)) continue;
    const group = block.groupId === undefined ? undefined : groups[block.groupId];
    const before = found.at(-1);
    if (block.replaced) {
      if (before && "replaced" in before) before.replaced.push(block);
      else found.push({ key: `replaced-${block.index}`, replaced: [block] });
    } else if (!group) found.push({ key: String(block.index), block });
    else if (before && "group" in before && before.group === group) before.blocks.push(block);
    else found.push({ key: group.id, group, blocks: [block] });
  }
  return found;
}

/** Blocks that a crash left empty are not shown, and results are shown with their calls. */
function isShown(block: BlockView, calls: ReadonlySet<string>): boolean {
  switch (block.type) {
    case "text":
      return block.text !== "";
    case "thinking":
      return block.open || block.thinking !== "";
    case "tool_result":
      return !calls.has(block.toolUseId);
    case "approval_result":
    case "approval_timeout":
      return false;
    default:
      return true;
  }
}
