/** Apart from the forms, since the words of every page need it. */
import type { ReviewConfig } from "@countersign/client";

/**
 * Whether an edit also approves the edited call. Otherwise people are asked about it, from the first step on: those of
 * earlier steps have seen only the original call, and if requesters may not approve, the editor is one of them now.
 */
export function editApproves({ level = 1, quorum = 1, not_self, role }: ReviewConfig): boolean {
  return level === 1 && quorum <= 1 && !(not_self && role !== undefined && role !== "user");
}
