/** The positions of a graph's parts in the drawing. The layout is dagre's; the labels are made to fit first. */
import { Graph, layout as place } from "@dagrejs/dagre";
import type { Drawing, DrawnEdge, DrawnNode } from "@countersign/client";

export interface Box {
  id: string;
  kind: DrawnNode["kind"];
  /** The whole label. */
  label: string;
  lines: string[];
  /** The middle. */
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Line {
  key: string;
  edge: DrawnEdge;
  points: Point[];
  lines: string[];
  /** The middle of the label. */
  x: number;
  y: number;
}

export interface Paper {
  width: number;
  height: number;
  /** Sub-graphs, the outer before the inner. */
  frames: Box[];
  boxes: Box[];
  lines: Line[];
}

interface Point {
  x: number;
  y: number;
}

export const LINE_HEIGHT = 17;
const MARGIN = 14;
const TITLE = 10;

/** An estimate of a text's width at 13 px, rather too wide than too narrow: there is no canvas to measure it on. */
export function widthOf(text: string): number {
  let width = 0;
  for (const c of text) width += isWide(c.codePointAt(0)!) ? 13.5 : /[A-ZMWmw]/.test(c) ? 9.5 : 7.2;
  return width;
}

/** Hangul, and from the Chinese radicals on; letters of Vietnamese lie between. */
const isWide = (code: number) => (code >= 0x1100 && code <= 0x115f) || code >= 0x2e80;

/** The width of an edge's label: a word that is longer than usual is not broken. */
const [LABEL, LONGEST] = [92, 190];
const labelWidth = (text: string) => Math.min(LONGEST, Math.max(LABEL, ...(text.match(/[^\s\u2e80-\uffef]+/gu) ?? []).map(widthOf)));

/** Lines no wider than that. A text that does not fit in this many lines ends in an ellipsis. */
export function wrap(text: string, width: number, most: number): string[] {
  const lines: string[] = [];
  for (const part of text.split(/\r\n|[\n\r\u0085\u2028\u2029]/)) {
    let line = "";
    // Chinese may break anywhere, and a long word has to.
    for (const word of part.match(/\s+|[\u2e80-\uffef]|[^\s\u2e80-\uffef]+/gu) ?? []) {
      for (const piece of widthOf(word) > width ? [...word] : [word]) {
        if (line !== "" && widthOf(line + piece) > width) {
          lines.push(line.trimEnd());
          line = "";
        }
        if (line !== "" || piece.trim() !== "") line += piece;
      }
    }
    lines.push(line.trimEnd());
  }
  if (lines.length <= most) return lines;
  const kept = lines.slice(0, most);
  kept[most - 1] = `${kept[most - 1]!}…`;
  return kept;
}

/** The graph made drawable: nodes that are only referred to are added, and cycles of parents opened. */
function sound({ nodes, edges, current }: Drawing): Map<string, DrawnNode> {
  const known = new Map<string, DrawnNode>();
  for (const node of nodes) if (!known.has(node.id)) known.set(node.id, node);
  for (const id of [...edges.flatMap((e) => [e.from, e.to]), ...current.map((p) => p.node)]) {
    if (!known.has(id)) known.set(id, { id, label: id, kind: "node" });
  }
  for (const node of known.values()) {
    const seen = new Set([node.id]);
    let parent = node.parent;
    while (parent !== undefined && known.has(parent) && !seen.has(parent)) {
      seen.add(parent);
      parent = known.get(parent)!.parent;
    }
    if (parent !== undefined) {
      const { parent: _, ...top } = node;
      known.set(node.id, top);
    }
  }
  return known;
}

/**
 * The same text for the same picture, wherever in it the session is: a layout takes from a tenth of a second, with sixty
 * nodes, to several seconds, and a turn moves on several times a second.
 */
export function shapeOf({ nodes, edges, current }: Drawing): string {
  const known = new Set(nodes.map((node) => node.id));
  return JSON.stringify([nodes, edges, current.map((at) => at.node).filter((id) => !known.has(id))]);
}

export function layout(drawing: Drawing): Paper {
  const nodes = sound(drawing);
  const children = new Map<string, string[]>();
  for (const node of nodes.values()) {
    if (node.parent !== undefined) children.set(node.parent, [...(children.get(node.parent) ?? []), node.id]);
  }
  const graph = new Graph({ multigraph: true, compound: true });
  graph.setGraph({
    rankdir: "TB",
    nodesep: 20,
    edgesep: 12,
    ranksep: 34,
    marginx: MARGIN,
    marginy: MARGIN,
    // The better algorithm takes seconds with many nodes.
    ranker: nodes.size > 150 ? "longest-path" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  // dagre's names are numbers: ids may be any text.
  const names = new Map([...nodes.keys()].map((id, i) => [id, `n${i}`]));
  const texts = new Map<string, { label: string; lines: string[] }>();
  for (const node of nodes.values()) {
    const label = node.label.trim() || node.id;
    const lines = wrap(label, 190, 4);
    texts.set(node.id, { label, lines });
    const width = Math.max(56, ...lines.map(widthOf)) + 26;
    graph.setNode(names.get(node.id)!, { width, height: lines.length * LINE_HEIGHT + 18 });
  }
  for (const node of nodes.values()) {
    if (node.parent !== undefined) graph.setParent(names.get(node.id)!, names.get(node.parent)!);
  }
  // dagre draws no edge to a frame: it goes to a node inside, and is cut off at the frame.
  const inside = (id: string, last: boolean): string => {
    const within = children.get(id);
    return within ? inside(within.at(last ? -1 : 0)!, last) : id;
  };
  drawing.edges.forEach((edge, i) => {
    const lines = edge.label.trim() === "" ? [] : wrap(edge.label, labelWidth(edge.label), 4);
    graph.setEdge(names.get(inside(edge.from, true))!, names.get(inside(edge.to, false))!, {
      width: lines.length > 0 ? Math.max(...lines.map(widthOf)) + 4 : 0,
      height: lines.length * (LINE_HEIGHT - 2),
      labelpos: "c",
      lines,
    }, `e${i}`);
  });
  place(graph);

  const boxes = [...nodes.values()].map((node): Box => {
    const { x, y, width, height } = graph.node(names.get(node.id)!) as Required<Point & { width: number; height: number }>;
    const box = { id: node.id, kind: node.kind, ...texts.get(node.id)!, x, y, width, height };
    // Room for a frame's title.
    return children.has(node.id) ? { ...box, y: y - TITLE / 2, height: height + TITLE } : box;
  });
  const byId = new Map(boxes.map((box) => [box.id, box]));
  const lines = drawing.edges.map((edge, i): Line => {
    const from = names.get(inside(edge.from, true))!;
    const found = graph.edge({ v: from, w: names.get(inside(edge.to, false))!, name: `e${i}` }) as {
      points: Point[];
      lines: string[];
      x?: number;
      y?: number;
    };
    const own = byId.get(edge.from);
    if (edge.from === edge.to && own && !children.has(edge.from)) {
      // For an edge from a node to itself, dagre only leaves room beside the node.
      const [x, y] = [own.x + own.width / 2, own.y];
      const points = [{ x, y: y - 6 }, { x: x + 20, y: y - 12 }, { x: x + 24, y }, { x: x + 20, y: y + 12 }, { x: x + 1, y: y + 6 }];
      const width = Math.max(0, ...found.lines.map(widthOf));
      return { key: `e${i}`, edge, points, lines: found.lines, x: x + 30 + width / 2, y };
    }
    let points = found.points;
    if (children.has(edge.to)) points = cut(points, byId.get(edge.to)!);
    if (children.has(edge.from)) points = cut([...points].reverse(), byId.get(edge.from)!).reverse();
    const middle = points[Math.floor(points.length / 2)] ?? { x: 0, y: 0 };
    return { key: `e${i}`, edge, points, lines: found.lines, x: found.x ?? middle.x, y: found.y ?? middle.y };
  });
  const depth = (id: string): number => {
    const parent = nodes.get(id)?.parent;
    return parent === undefined ? 0 : 1 + depth(parent);
  };
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  const right = Math.max(0, ...lines.map((line) => line.x + Math.max(0, ...line.lines.map(widthOf)) / 2 + MARGIN));
  return {
    width: Math.max(width, right, 1),
    height: Math.max(height, 1),
    frames: boxes.filter((box) => children.has(box.id)).sort((a, b) => depth(a.id) - depth(b.id)),
    boxes: boxes.filter((box) => !children.has(box.id)),
    lines,
  };
}

/** The path, cut at the frame in which it ends. */
function cut(points: Point[], { x, y, width, height }: Box): Point[] {
  const within = (p: Point) => Math.abs(p.x - x) < width / 2 && Math.abs(p.y - y) < height / 2;
  const last = points.findIndex(within);
  if (last <= 0) return points;
  let [out, into] = [points[last - 1]!, points[last]!];
  for (let i = 0; i < 20; i++) {
    const middle = { x: (out.x + into.x) / 2, y: (out.y + into.y) / 2 };
    if (within(middle)) into = middle;
    else out = middle;
  }
  // An arrow points in the direction of its last piece, which must not be empty.
  const way = points.slice(0, last).filter((p) => Math.hypot(p.x - out.x, p.y - out.y) > 2);
  return way.length > 0 ? [...way, out] : points;
}

/** A smooth path through the points. */
export function pathOf(points: Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${round(first)}`;
  rest.forEach((point, i) => {
    const next = rest[i + 1];
    // Through the middles, so that the corners are round; straight at the ends, where the arrow is.
    if (!next) path += `L${round(point)}`;
    else path += `Q${round(point)} ${round({ x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 })}`;
  });
  return path;
}
const round = ({ x, y }: Point) => `${Math.round(x * 10) / 10},${Math.round(y * 10) / 10}`;
