export * from "./protocol.js";
export * from "./view.js";
export { approvalFromBlock, fold, foldAll } from "./fold.js";
export { keptTodos, questionsOf, toolArgs, todosOf, type Todo, type TodoStatus } from "./args.js";
export * from "./history.js";
export * from "./graph.js";
export { timeline, type TimelinePart } from "./timeline.js";
export { CountersignClient, type ClientEvents, type ClientOptions, type ConnectionState } from "./client.js";
export {
  CountersignHttp,
  type AgentSummary,
  type HistoryQuery,
  type HttpOptions,
  type RetryOptions,
  type RuleQuery,
  type RunRequest,
  type SessionState,
  type SessionSummary,
  type StandingRule,
  type Checkpoint,
  type ForkedFrom,
  type ForkRequest,
} from "./http.js";
export { CountersignError } from "./errors.js";
export { randomId } from "./ids.js";
export * from "./json.js";
