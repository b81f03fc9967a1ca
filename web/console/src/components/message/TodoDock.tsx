import { useMemo } from "react";
import { keptTodos, type MessageView } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { Icon } from "../Icon.js";
import { Visible } from "../Visible.js";
import { TodoList } from "./TodoList.js";

/** While the agent is at work, where it stands on its list, though the steps that wrote it are folded away. */
export function TodoDock({ messages }: { messages: MessageView[] }) {
  const { t } = useI18n();
  const todos = useMemo(() => keptTodos(messages), [messages]);
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
