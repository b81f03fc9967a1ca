import { useMemo } from "react";
import { todosOf, toolArgs, type MessageView } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { Icon } from "../Icon.js";
import { Visible } from "../Visible.js";
import { TodoList } from "./TodoList.js";

/** While the agent is at work, where it stands on its list, though the steps that wrote it are folded away. */
export function TodoDock({ message }: { message: MessageView }) {
  const { t } = useI18n();
  const todos = useMemo(() => newestTodos(message), [message]);
  if (!todos || todos.length === 0) return null;
  const done = todos.filter((todo) => todo.status === "completed").length;
  const now = todos.find((todo) => todo.status === "in_progress");
  return (
    <details className="todo-dock">
      <summary>
        <Icon name="chevron" />
        <span className="todo-dock-count">{t("todo.done", { n: done, of: todos.length })}</span>
        {now && (
          <span className="todo-dock-now">
            <Visible text={now.content} />
          </span>
        )}
      </summary>
      <TodoList todos={todos} />
    </details>
  );
}

function newestTodos(message: MessageView) {
  const call = message.blocks.findLast((b) => b.type === "tool_use" && b.name === "write_todos" && !b.open);
  return call?.type === "tool_use" ? todosOf(toolArgs(call)) : undefined;
}
