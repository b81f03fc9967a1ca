import { useId, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { Drawing, Position } from "@countersign/client";
import { visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { inWords } from "../../lib/graphWords.js";
import { layout, LINE_HEIGHT, pathOf, shapeOf, type Box, type Line } from "../../lib/graph.js";
import { Icon } from "../Icon.js";

const STEP = 1.25;
const [SMALLEST, LARGEST] = [0.2, 3];

export default function GraphPicture({ drawing, text }: { drawing: Drawing; text: string }) {
  const { t, language } = useI18n();
  const box = useRef<HTMLDivElement>(null);
  const arrow = useId();
  const paper = useMemo(() => layout(inWords(drawing, language)), [shapeOf(drawing), language]);
  const positions = new Map(drawing.current.map((one) => [one.node, one]));
  const [fit, setFit] = useState(1);
  /** Undefined: as large as fits. */
  const [zoom, setZoom] = useState<number>();
  const scale = zoom ?? fit;

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => {
      const [width, height] = [element.clientWidth - 2, element.clientHeight - 2];
      // Never so small that nothing can be read: then it scrolls.
      setFit(Math.min(1.15, Math.max(0.6, Math.min(width / paper.width, height / paper.height))));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [paper]);

  // In a graph larger than its frame, people look for the session's current node.
  const at = drawing.current[0]?.node;
  useLayoutEffect(() => {
    const element = box.current;
    const here = [...paper.boxes, ...paper.frames].find((b) => b.id === at);
    if (!element || !here) return;
    element.scrollTo({
      left: here.x * scale - element.clientWidth / 2,
      top: here.y * scale - element.clientHeight / 2,
    });
  }, [paper, at, scale]);

  const to = (factor: number) => setZoom(Math.min(LARGEST, Math.max(SMALLEST, scale * factor)));
  return (
    <>
      <div ref={box} className="graph-scroll" tabIndex={0} role="group" aria-label={t("graph.scroll")}>
        <svg
          role="img"
          aria-label={text}
          className="graph"
          width={paper.width * scale}
          height={paper.height * scale}
          viewBox={`0 0 ${paper.width} ${paper.height}`}
        >
          <defs>
            <marker id={arrow} viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" orient="auto">
              <path d="M0,0.5 L8,4 L0,7.5 z" className="graph-arrow" />
            </marker>
          </defs>
          {paper.frames.map((frame) => (
            <Frame key={frame.id} frame={frame} position={positions.get(frame.id)} />
          ))}
          {paper.lines.map((line) => (
            <path
              key={line.key}
              className="graph-edge"
              data-conditional={line.edge.conditional || undefined}
              d={pathOf(line.points)}
              markerEnd={`url(#${arrow})`}
            />
          ))}
          {paper.boxes.map((node) => (
            <Node key={node.id} node={node} position={positions.get(node.id)} />
          ))}
          {paper.lines.map((line) => (
            <EdgeLabel key={line.key} line={line} />
          ))}
        </svg>
      </div>
      <div className="graph-zoom">
        <button type="button" className="button small" onClick={() => to(1 / STEP)} aria-label={t("graph.smaller")}>
          −
        </button>
        <button type="button" className="button small" onClick={() => setZoom(undefined)}>
          {t("graph.fit")}
        </button>
        <button type="button" className="button small" onClick={() => to(STEP)} aria-label={t("graph.larger")}>
          <Icon name="plus" />
        </button>
      </div>
    </>
  );
}

interface Standing {
  /** Absent: the session is not there. */
  position: Position | undefined;
}

function state({ position }: Standing): "running" | "waiting" | "here" | undefined {
  if (!position) return undefined;
  return position.running > 0 ? "running" : position.waiting > 0 ? "waiting" : "here";
}

function Node({ node, position }: Standing & { node: Box }) {
  const { x, y, width, height } = node;
  const round = node.kind === "start" || node.kind === "end" ? height / 2 : 8;
  const rect = { x: x - width / 2, y: y - height / 2, width, height, rx: round };
  const tasks = position ? position.running + position.waiting : 0;
  return (
    <g className="graph-node" data-kind={node.kind} data-node={node.id} data-state={state({ position })}>
      <title>{visibleText(node.label)}</title>
      <rect {...rect} />
      {node.kind === "graph" && <rect {...rect} x={rect.x + 4} y={rect.y + 4} width={width - 8} height={height - 8} rx={5} />}
      <Text lines={node.lines} x={x} y={y} />
      {tasks > 1 && (
        <g className="graph-count" transform={`translate(${x + width / 2 - 4} ${y - height / 2 + 2})`}>
          <rect x={-13} y={-9} width={26} height={18} rx={9} />
          <text y={4}>{tasks > 99 ? "99+" : tasks}</text>
        </g>
      )}
    </g>
  );
}

function Frame({ frame, position }: Standing & { frame: Box }) {
  const { x, y, width, height } = frame;
  return (
    <g className="graph-frame" data-node={frame.id} data-state={state({ position })}>
      <title>{visibleText(frame.label)}</title>
      <rect x={x - width / 2} y={y - height / 2} width={width} height={height} rx={10} />
      <text x={x - width / 2 + 10} y={y - height / 2 + 16} className="graph-frame-label">
        {visibleText(frame.lines[0] ?? "")}
      </text>
    </g>
  );
}

function EdgeLabel({ line }: { line: Line }) {
  return (
    <g className="graph-label">
      <title>{visibleText(line.edge.label)}</title>
      <Text lines={line.lines} x={line.x} y={line.y} />
    </g>
  );
}

function Text({ lines, x, y }: { lines: string[]; x: number; y: number }) {
  const top = y - ((lines.length - 1) * LINE_HEIGHT) / 2 + 4.5;
  return (
    <text>
      {lines.map((line, i) => (
        <tspan key={i} x={x} y={top + i * LINE_HEIGHT}>
          {visibleText(line)}
        </tspan>
      ))}
    </text>
  );
}
