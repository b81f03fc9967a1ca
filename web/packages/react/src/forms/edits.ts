/**
 * An edit of a call's arguments: its form, its result, whether it is an approval, and the problems that the server
 * finds.
 */
import {
  configOf,
  isNumber,
  isObject,
  type Action,
  type ApprovalView,
  type CountersignError,
  type DecisionType,
  type EditPreview,
  type JsonObject,
  type JsonValue,
  type ReviewConfig,
} from "@countersign/client";
import { editApproves } from "./editApproves.js";
import { fieldsOf, placeIn, readEdit, type EditDraft, type Field, type FieldError } from "./form.js";
import { brokenRule, rulesOf } from "./rules.js";
import { schemaAt } from "./schema.js";

export { editApproves };

/** The fields of the form in which a call's arguments are edited. */
export function argFields(action: Action, config: ReviewConfig): Field[] | undefined {
  return fieldsOf(config.args_schema, action.args, { titles: true, rules: "limits", ordered: true });
}

/** The edited arguments; `undefined` while the edit cannot be read. */
export function editedArgs(action: Action, config: ReviewConfig, draft: EditDraft | undefined): JsonObject | undefined {
  if (!draft) return action.args; // Opened, and nothing typed yet.
  const read = readEdit(draft, argFields(action, config), action.args);
  return read.ok ? read.args : undefined;
}

/** Whether a choice lets a call run, so that what would run must have been seen whole. */
export function needsSight(choice: DecisionType): boolean {
  return choice === "approve" || choice === "edit";
}

/**
 * Whether people are asked about the edited call from the first step on. At a later step the edit has counted as an
 * approval.
 */
export function asksFromTheStart({ outcome, reviewConfig }: EditPreview): boolean {
  return outcome === "asks" && (reviewConfig?.level ?? 1) === 1;
}

/** Whether the edited call needs an approval that the proposed call does not, so that the edit is not an approval. */
export function asksAnew(config: ReviewConfig, found: EditPreview | undefined): boolean {
  return found !== undefined && asksFromTheStart(found) && editApproves(config);
}

export interface FieldProblem {
  pointer: string;
  /** The server's words, which are English. */
  message: string;
  /** The same in words of the page, if it has them. */
  error?: FieldError | undefined;
}

/** `details.errors` of `invalid_edit`. */
export function problemsOf(details: JsonObject | undefined): FieldProblem[] {
  const errors = details?.errors;
  if (!Array.isArray(errors)) return [];
  return errors.filter(isObject).map((e) => ({ pointer: text(e.pointer), message: text(e.message) }));
}

/** The problems that the server found with these arguments of a call, also in words of the page. */
export function editProblems(error: CountersignError | undefined, config: ReviewConfig, args: JsonObject): FieldProblem[] {
  if (error?.code !== "invalid_edit") return [];
  return problemsOf(error.details).map((problem) => ({ ...problem, error: problemError(problem, config, args) }));
}

/** A problem in the page's own words, if a simple rule of the schema explains it. */
export function problemError(problem: FieldProblem, { args_schema: schema }: ReviewConfig, args: JsonObject): FieldError | undefined {
  const path = stepsOf(problem.pointer);
  const property = path.length > 0 ? schemaAt(schema, path) : undefined;
  const value = path.reduce<JsonValue | undefined>((at, step) => inside(at, step), args);
  if (!property || value === undefined) return undefined;
  if (property.type === "number" && !isNumber(value)) return { key: "edit.error.number" };
  if (property.type === "integer" && !isNumber(value)) return { key: "edit.error.integer" };
  return brokenRule(rulesOf(property, false), value);
}

function inside(value: JsonValue | undefined, step: string): JsonValue | undefined {
  if (Array.isArray(value)) return value[Number(step)];
  return isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined;
}

const text = (value: JsonValue | undefined) => (typeof value === "string" ? value : "");

/**
 * The place in the arguments to which a JSON pointer points. Servers may point into the arguments (`/price`) or into
 * the
 * whole message (`/decisions/0/edited_action/args/price`).
 */
function stepsOf(pointer: string): string[] {
  const parts = pointer.split("/").slice(1).map((p) => p.replaceAll("~1", "/").replaceAll("~0", "~"));
  return parts.slice(parts[0] === "decisions" ? parts.indexOf("args") + 1 : 0);
}

/** That place in the form that fields use. */
export function placeOf(pointer: string): string {
  return stepsOf(pointer).reduce(placeIn, "");
}

/** The argument to which a pointer points. */
export function argumentOf(pointer: string): string {
  return stepsOf(pointer)[0] ?? "";
}

/** The problems at a place, or inside it. */
export function problemsAt(problems: readonly FieldProblem[], place: string): FieldProblem[] {
  return problems.filter(({ pointer }) => `${placeOf(pointer)}/`.startsWith(place === "" ? "" : `${place}/`));
}

/** The index of the action that an `invalid_edit` error is about, if its pointer or its message says so. */
export function actionIndexOf(pointer: string, message = ""): number | undefined {
  const match = /^\/decisions\/(\d+)\//.exec(pointer) ?? /^decisions\[(\d+)\]/.exec(message);
  return match ? Number(match[1]) : undefined;
}

/** A problem that the server found with an edit in a reply. */
export interface RefusedEdit extends FieldProblem {
  /** The index of the call that it is about, if known. */
  index: number | undefined;
}

/** The problems that the server found with a reply's edits. `args`: the edited arguments of the call at this index. */
export function refusedEdits(
  error: CountersignError | undefined,
  approval: ApprovalView,
  args: (index: number) => JsonObject | undefined,
): RefusedEdit[] {
  if (error?.code !== "invalid_edit") return [];
  return problemsOf(error.details).map((problem) => {
    const index = actionIndexOf(problem.pointer, error.message) ?? (approval.actions.length === 1 ? 0 : undefined);
    return { ...problem, index, error: problemError(problem, configOf(approval, index ?? 0), args(index ?? 0) ?? {}) };
  });
}
