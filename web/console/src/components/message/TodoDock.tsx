import { useEffect, useMemo, useState } from "react";
import { keptTodos, type SessionView, type Todo } from "@countersign/client";
import { Visible } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { http } from "../../state/connection.js";
import { Icon } from "../Icon.js";
import { TodoList } from "./TodoList.js";

/** The agent's progress on its list while it works, though the steps that wrote it are collapsed. */
export function TodoDock({ view }: { view: SessionView }) {
  const { t } = useI18n();
  const written = useMemo(() => keptTodos(view.messages), [view.messages]);
  const before = useEarlierTodos(view, written === undefined && view.firstSeq !== undefined);
  const todos = written ?? before;
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

/** The current list, if it was written before the loaded part of the session. */
function useEarlierTodos({ sessionId }: SessionView, wanted: boolean): Todo[] | undefined {
  const [todos, setTodos] = useState<Todo[]>();
  useEffect(() => {
    if (!wanted) return;
    let gone = false;
    http.state(sessionId).then(
      (state) => !gone && setTodos(state.todos),
      () => {}, // It is only a help, and arrives with the next step that writes it.
    );
    return () => void (gone = true);
  }, [sessionId, wanted]);
  return wanted ? todos : undefined;
}
