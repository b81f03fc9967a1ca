/** A session at an earlier point: its events up to there are already in its view, each with its place. */
import { toolArgs, type ApprovalView, type BlockView, type Checkpoint, type ImageSource, type JsonObject, type MessageView, type SessionView } from "@countersign/client";
import { callsOf } from "./calls.js";

/** One thing that had been said or done, in a line or two. */
export type PastItem = { key: string } & (
  | { kind: "said"; by: string | undefined; text: string; images: number }
  | { kind: "answered"; text: string }
  | { kind: "called"; name: string; text: string }
  | { kind: "result"; name: string; text: string }
  | { kind: "asked"; approval: ApprovalView; waits: boolean }
);

/** How much of a text is shown at a point. */
const CHARS = 400;

const short = (text: string) => (text.length > CHARS ? `${text.slice(0, CHARS)}…` : text);

/** The messages as they were then, without later content. */
function messagesAt(view: SessionView, seq: number): MessageView[] {
  return view.messages
    .filter((message) => message.seq <= seq)
    .map((message) => ({ ...message, blocks: message.blocks.filter((block) => block.seq <= seq && !block.replaced) }));
}

/** The last things before a point, oldest first. */
export function itemsAt(view: SessionView, { seq, pending }: Pick<Checkpoint, "seq" | "pending">, most: number): PastItem[] {
  const items: PastItem[] = [];
  for (const message of messagesAt(view, seq).reverse()) {
    if (items.length >= most) break;
    if (message.role === "user") items.push(said(message));
    else for (const block of [...message.blocks].reverse()) items.push(...itemOf(message, block, view, pending));
  }
  return items.slice(0, most).reverse();
}

function said({ id, by, blocks }: MessageView): PastItem {
  return { key: id, kind: "said", by, text: short(textOf(blocks)), images: blocks.filter((b) => b.type === "image").length };
}

function itemOf({ id }: MessageView, block: BlockView, view: SessionView, pending: readonly string[]): PastItem[] {
  const key = `${id} ${block.index}`;
  switch (block.type) {
    case "text":
      return block.text.trim() === "" ? [] : [{ key, kind: "answered", text: short(block.text.trim()) }];
    case "tool_use":
      return [{ key, kind: "called", name: block.name, text: block.toolContentMessage ?? (block.json === "{}" ? "" : short(block.json)) }];
    case "tool_result":
      return [{ key, kind: "result", name: block.name, text: short(block.content) }];
    case "approval_request": {
      const approval = view.approvals[block.approvalKey];
      return approval ? [{ key, kind: "asked", approval, waits: pending.includes(block.approvalKey) }] : [];
    }
    default:
      return [];
  }
}

const textOf = (blocks: readonly BlockView[]) => blocks.flatMap((b) => (b.type === "text" ? [b.text] : [])).join("\n");

/** A call that can be changed in the fork. */
export interface PastCall {
  id: string;
  name: string;
  args: JsonObject;
  /** The request about it, with the rules for its arguments. */
  approval?: { of: ApprovalView; index: number };
}

export interface Editable {
  /** The message with which the turn has just begun; empty if the next one is still to be written. */
  message?: { text: string; images: ImageSource[]; /** How many of the images come before the text. */ before: number };
  calls: PastCall[];
}

/**
 * What a fork from a point can change there: the message of a turn that has only just begun, or calls that have not
 * begun. `takesMessages`: whether people can write in its session.
 */
export function editableAt(view: SessionView, point: Checkpoint, takesMessages = true): Editable {
  const messages = messagesAt(view, point.seq);
  if (["idle", "completed", "cancelled"].includes(point.status)) {
    return { ...(takesMessages ? { message: { text: "", images: [], before: 0 } } : {}), calls: [] };
  }
  const blocks = messages.findLast((m) => m.role === "assistant")?.blocks ?? [];
  if (point.after === "message" && blocks.length === 0) {
    const said = messages.findLast((m) => m.role === "user")?.blocks ?? [];
    const images = said.flatMap((b) => (b.type === "image" ? [b.source] : []));
    const text = said.findIndex((b) => b.type === "text");
    const before = said.filter((b, i) => b.type === "image" && (text < 0 || i < text)).length;
    return { message: { text: textOf(said), images, before }, calls: [] };
  }
  if (point.status === "failed") return { calls: [] };
  const done = callsOf(blocks).results;
  const asked = point.pending.flatMap((key) => view.approvals[key] ?? []).filter(({ kind }) => kind === "approval");
  const calls = blocks.flatMap((block): PastCall[] => {
    if (block.type !== "tool_use" || done.has(block.seq)) return [];
    const of = asked.find((approval) => approval.actions.some((action) => action.tool_use_id === block.id && !action.path?.length));
    const index = of?.actions.findIndex((action) => action.tool_use_id === block.id) ?? -1;
    // Pending calls can be changed, and those that the model has only just made.
    if (!of && point.after !== "answer") return [];
    const args = of ? of.actions[index]!.args : toolArgs(block);
    return args ? [{ id: block.id, name: of?.actions[index]!.name ?? block.name, args, ...(of ? { approval: { of, index } } : {}) }] : [];
  });
  return { calls };
}

/** On one line. */
export const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim();
