/** The graph of a session as it is drawn. */
import type { RunStatus } from "./protocol.js";

/** A graph to be drawn. Sub-graphs are nodes that others name as their parent. */
export interface Drawing {
  nodes: DrawnNode[];
  edges: DrawnEdge[];
  /** Where the session stands. */
  current: Position[];
}

export interface DrawnNode {
  id: string;
  /** Empty: its id is shown. */
  label: string;
  kind: "start" | "end" | "node" | "graph";
  /** The sub-graph it is in. */
  parent?: string;
}

export interface DrawnEdge {
  from: string;
  to: string;
  /** When it is taken; may be empty. */
  label: string;
  /** One of several that the node before may choose. */
  conditional: boolean;
}

/** A node where a session stands. Without tasks it stands there all the same: at its end, for example. */
export interface Position {
  node: string;
  /** Tasks that run there. */
  running: number;
  /** Tasks that wait there for a person. */
  waiting: number;
}

export interface SessionGraph {
  session_id: string;
  agent: string;
  /** `idle` before the first turn. */
  status: RunStatus;
  /** The `seq` of the last event that the picture knows of. */
  seq: number;
  drawing: Drawing;
}
