/** The session's graph beside the chat, with its current node; on a phone a sheet over it. */
import { lazy, Suspense, useId, useState } from "react";
import type { SessionGraph, SessionView } from "@countersign/client";
import { visibleText } from "@countersign/react";
import { useI18n, type Translate } from "../../i18n/index.js";
import { composes } from "../../lib/composes.js";
import { late } from "../../lib/late.js";
import { readLocal, writeLocal } from "../../lib/storage.js";
import { Icon } from "../Icon.js";
import { useSessionGraph } from "./useSessionGraph.js";

// The layout library is as large as the rest of the page; it is loaded only to show a graph.
const GraphPicture = lazy(late(() => import("./GraphPicture.js")));

/** Whether the graph is shown. A preference: it stays for all sessions. */
export function useGraphShown(): [boolean, (shown: boolean) => void] {
  const [shown, set] = useState(() => readLocal("graph") === "shown");
  return [
    shown,
    (next) => {
      writeLocal("graph", next ? "shown" : null);
      set(next);
    },
  ];
}

export function GraphToggle({ shown, onChange }: { shown: boolean; onChange: (shown: boolean) => void }) {
  const { t } = useI18n();
  return (
    <button
      type="button"
      className="icon-button graph-toggle"
      aria-label={t("graph.show")}
      title={t("graph.show")}
      aria-pressed={shown}
      onClick={() => onChange(!shown)}
    >
      <Icon name="graph" />
    </button>
  );
}

export function GraphPanel({ view, onClose }: { view: SessionView; onClose: () => void }) {
  const { t } = useI18n();
  const close = () => {
    // The focus must not be lost with the panel.
    document.querySelector<HTMLElement>(".graph-toggle")?.focus();
    onClose();
  };
  const id = useId();
  const { graph, failed } = useSessionGraph(view);
  const standing = graph && standsAt(graph, t);
  return (
    <aside
      className="graph-panel"
      aria-labelledby={id}
      onKeyDown={(e) => e.key === "Escape" && !composes(e) && close()}
    >
      <div className="graph-head">
        <h2 id={id}>{t("graph.heading")}</h2>
        <button type="button" className="icon-button" onClick={close} aria-label={t("graph.hide")}>
          <Icon name="close" />
        </button>
      </div>
      {failed && <p className="graph-note">{t("graph.failed")}</p>}
      {graph && standing && (
        <>
          <p className="graph-note graph-standing">{standing}</p>
          <Suspense fallback={<p className="graph-note">{t("graph.loading")}</p>}>
            <GraphPicture drawing={graph.drawing} text={`${t("graph.alt", { agent: graph.agent })} ${standing}`} />
          </Suspense>
        </>
      )}
      {!graph && !failed && <p className="graph-note">{t("graph.loading")}</p>}
    </aside>
  );
}

/** The current node in words, for everybody. */
function standsAt({ drawing, status }: SessionGraph, t: Translate): string {
  if (status === "idle") return t("graph.idle");
  const said = drawing.current.map(({ node, running, waiting }) => {
    const label = visibleText(drawing.nodes.find((n) => n.id === node)?.label.trim() || node);
    const tasks = [
      running > 0 && waiting + running > 1 ? t("graph.running", { n: running }) : "",
      waiting > 0 ? t("graph.waiting", { n: waiting }) : "",
    ].filter(Boolean);
    return tasks.length > 0 ? t("graph.nodeTasks", { node: label, tasks: tasks.join(t("text.comma")) }) : label;
  });
  return said.length > 0 ? t("graph.standsAt", { nodes: said.join(" · ") }) : t("graph.nowhere");
}
