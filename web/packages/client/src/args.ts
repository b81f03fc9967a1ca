/** The contents of a call's arguments. A model wrote them, so nothing about their shape is certain. */
import { isObject, parseJson, type JsonObject, type JsonValue } from "./json.js";
import type { Question, Todo, TodoStatus } from "./protocol.js";
import type { BlockView, MessageView } from "./view.js";

/** In this argument a model says what a call does. It is reserved: no tool ever gets it. */
const RESERVED = "tool_content_message";

/** The arguments of a call as its tool gets them; `undefined` while they are not a JSON object. */
export function toolArgs(use: Extract<BlockView, { type: "tool_use" }>): JsonObject | undefined {
  let args: JsonValue;
  try {
    args = parseJson(use.json === "" ? "{}" : use.json);
  } catch {
    return undefined;
  }
  if (!isObject(args)) return undefined;
  const { [RESERVED]: _, ...rest } = args;
  return rest;
}

/** The questions of an `ask_user_question` call; `undefined` if the arguments are not valid questions. */
export function questionsOf(args: JsonObject | undefined): Question[] | undefined {
  const list = args?.questions;
  if (!Array.isArray(list) || list.length === 0 || !list.every(isObject)) return undefined;
  return list.map((q) => ({
    question: text(q.question) ?? "",
    ...some("header", text(q.header)),
    multiSelect: q.multiSelect === true,
    options: (Array.isArray(q.options) ? q.options : []).filter(isObject).map((option) => ({
      label: text(option.label) ?? "",
      ...some("description", text(option.description)),
      ...(option.input === true ? { input: true } : {}),
    })),
  }));
}

/** The list of a `write_todos` call; `undefined` if the arguments are not a valid list. */
export function todosOf(args: JsonObject | undefined): Todo[] | undefined {
  const list = args?.todos;
  if (!Array.isArray(list)) return undefined;
  const todos = list.filter(isObject).flatMap(({ content, status }): Todo[] =>
    typeof content === "string" && isStatus(status) ? [{ content, status }] : [],
  );
  return todos.length === list.length ? todos : undefined;
}

/** The list that the session keeps: that of the newest successful `write_todos`, in any turn. */
export function keptTodos(messages: readonly MessageView[]): Todo[] | undefined {
  for (let m = messages.length - 1; m >= 0; m--) {
    const blocks = messages[m]!.blocks;
    for (let b = blocks.length - 1; b >= 0; b--) {
      const result = blocks[b]!;
      if (result.type !== "tool_result" || result.name !== "write_todos" || result.status !== "success") continue;
      // If a turn failed and was retried, the call may be in an earlier message than its result.
      const before = [...messages.slice(0, m).flatMap((message) => message.blocks), ...blocks.slice(0, b)];
      const call = before.findLast((block) => block.type === "tool_use" && block.id === result.toolUseId);
      return call?.type === "tool_use" ? todosOf(toolArgs(call)) : undefined;
    }
  }
  return undefined;
}

const isStatus = (value: JsonValue | undefined): value is TodoStatus =>
  value === "pending" || value === "in_progress" || value === "completed";

const text = (value: JsonValue | undefined) => (typeof value === "string" && value !== "" ? value : undefined);

const some = <K extends string>(key: K, value: string | undefined) =>
  (value === undefined ? {} : { [key]: value }) as { [key in K]?: string };
