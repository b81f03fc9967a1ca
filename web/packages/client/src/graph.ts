/** The graph of a session as it is drawn. */
export type { Drawing, DrawnEdge, DrawnNode, GraphView as SessionGraph, Position } from "./generated/http.js";
