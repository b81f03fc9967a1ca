/**
 * Arguments without a framework: from schemas to tables and forms, from typed text to values with every digit, and the
 * changes of an edit.
 */
export { ANSWER, answerFields, answerForm, emptyAnswer, readAnswer, type AnswerDraft, type AnswerForm, type AnswerResult, type FieldsForm } from "./answer.js";
export { momentText, weekdayText } from "./dates.js";
export { diff, type Change } from "./diff.js";
export {
  actionIndexOf,
  argFields,
  argumentOf,
  asksAnew,
  asksFromTheStart,
  editApproves,
  editedArgs,
  editProblems,
  needsSight,
  placeOf,
  problemError,
  problemsAt,
  problemsOf,
  refusedEdits,
  type FieldProblem,
  type RefusedEdit,
} from "./edits.js";
export { elicitationForm, elicitationOf, formProblems, elicitationResultOf, type Address, type Elicitation, type ElicitationResult } from "./elicitation.js";
export {
  chosenOf,
  errorAt,
  fieldsOf,
  fitsForm,
  isGroup,
  newEdit,
  partOf,
  placeIn,
  readEdit,
  switchTab,
  type EditDraft,
  type EditResult,
  type Field,
  type FieldDraft,
  type FieldError,
  type FieldErrors,
  type FieldKind,
  type Reading,
} from "./form.js";
export { escapedIn, lookalikes } from "./lookalike.js";
export { argTable, type ArgRow, type ArgTable, type Unset } from "./rows.js";
export { fitsFormat, type Format, type RuleError, type Rules } from "./rules.js";
export { inLine, isLongText } from "./shown.js";
export { choiceText, prettyJson, valueText } from "./values.js";
