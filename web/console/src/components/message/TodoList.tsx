import type { Todo } from "@countersign/client";
import { Visible } from "@countersign/react";
import { useI18n, wordText } from "../../i18n/index.js";
import { Icon } from "../Icon.js";

/** The agent's to-do list, and its progress. */
export function TodoList({ todos }: { todos: Todo[] }) {
  const { t } = useI18n();
  if (todos.length === 0) return <p className="muted">{t("todo.empty")}</p>;
  return (
    <ul className="todos" aria-label={t("todo.heading")}>
      {todos.map((todo, i) => (
        <li key={i} className="todo" data-status={todo.status}>
          <span className="todo-mark" aria-hidden="true">
            {todo.status === "completed" && <Icon name="check" />}
          </span>
          <span className="todo-text">
            <Visible text={todo.content} />
            <span className="visually-hidden">{t("text.paren", { text: wordText(t, "todo", todo.status) })}</span>
          </span>
        </li>
      ))}
    </ul>
  );
}
