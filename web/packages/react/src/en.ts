/** English, against which the other languages are checked. */
import { endingOf, endText, kindsOf, type Ending } from "./ended.js";
import type { Labels } from "./labels.js";
import { visibleText } from "./visibleText.js";

/** The texts for showing and editing arguments. Values are put into `{n}` and the like. */
export const texts = {
  "text.comma": ", ",
  "text.list": ", ",
  "text.colon": ": ",
  "text.paren": " ({text})",

  "withdrawn.taken_back": "the tool took the question back",
  "withdrawn.state_edited": "the state it was about was changed",
  "withdrawn.call_ended": "its call ended in another way",
  "withdrawn.node_ended": "its node ended in another way",

  "people.owner": "the session’s owner",

  "refusal.reason": "The server says: ",

  "card.hidden": "Contains hidden characters, shown as ⟨U+…⟩.",
  "card.lookalike": "Contains look-alike characters, shown as ⟨U+…⟩.",

  "preview.diff": "What it would change",
  "preview.text": "What it would do",
  "preview.failed": "What it would do cannot be shown",
  "preview.leftOut": "Lines left out: {n}.",

  "shown.agentSays": "The agent says (not verified)",
  "shown.size": "{n} bytes",
  "shown.hashArgs": "SHA-256 of the arguments",
  "shown.hashText": "SHA-256 of the text shown",
  "shown.long": "This is long: scroll to its end, or show all of it, before you approve.",
  "shown.all": "Show all",
  "shown.region": "Arguments, exactly as they will run",
  "shown.warning": "Look closely. Characters that could mislead are written as ⟨U+…⟩ or \\u{…}: ",
  "shown.places": "Where",
  "shown.elsewhere": "in other places",
  "shown.invisible": "invisible: {n}",
  "shown.bidirectional": "changing the direction of the text: {n}",
  "shown.control": "control characters: {n}",
  "shown.confusable": "look-alikes: {n}",
  "shown.whitespace": "unusual spaces: {n}",
  "shown.not_normalized": "in an unusual spelling: {n}",

  "args.region": "Arguments as a table",
  "args.exact": "Exact JSON",
  "args.notSet": "Not set: ",
  "args.default": "default: {value}",
  "args.more": "Left out here: {n}. The exact JSON below has all of them.",
  "args.moreChars": "… Characters left out: {n}. The exact JSON below has them.",

  "edit.heading": "Edit the arguments",
  "edit.form": "Form",
  "edit.json": "JSON",
  "edit.jsonLabel": "Arguments as JSON",
  "edit.valid": "Valid JSON",
  "edit.changes": "Changes",
  "edit.noChanges": "Nothing is changed yet.",
  "edit.reset": "Reset",
  "edit.notSet": "not set",
  "edit.removed": "removed",
  "edit.required": "required",
  "edit.fixFirst": "Fix the marked fields first.",
  "edit.asks": "The changed call has no approval yet, so it will be sent for approval.",
  "edit.restarts": "The changed call goes through approval again, from the first level: {role}.",
  "edit.notSelf": "You may not approve what you have changed: somebody else with the role “{role}” must.",
  "edit.checking": "Checking the changed call…",
  "edit.accepted": "The policy accepts these values.",
  "edit.needsApproval": "These values need approval: {role}",
  "edit.refused": "These values would be refused.",
  "edit.error.required": "This field is required.",
  "edit.error.number": "This is not a number.",
  "edit.error.integer": "This is not a whole number.",
  "edit.error.json": "Not valid JSON at line {line}, column {column}.",
  "edit.error.duplicate": "The name {n} appears twice.",
  "edit.error.digits": "The number {n} is too large, too small or too precise to be kept exactly.",
  "edit.error.refused": "This value is not accepted.",
  "edit.error.object": "The arguments must be a JSON object.",
  "edit.error.min": "At least {n}.",
  "edit.error.max": "At most {n}.",
  "edit.error.above": "More than {n}.",
  "edit.error.below": "Less than {n}.",
  "edit.error.minLength": "Minimum length: {n}.",
  "edit.error.maxLength": "Maximum length: {n}.",
  "edit.error.minItems": "Minimum number of entries: {n}.",
  "edit.error.maxItems": "Maximum number of entries: {n}.",
  "edit.error.email": "This is not an email address.",
  "edit.error.uri": "This is not a full address, such as https://example.com.",
  "edit.error.date": "This is not a date, such as 2026-01-31.",
  "edit.error.dateTime": "This is not a date with a time, such as 2026-01-31T09:30:00Z.",
  "edit.to": "changed to",
  "edit.noForm": "Valid JSON, but the form cannot show all of it.",
  "edit.entry": "Entry {n}",
  "edit.addEntry": "Add an entry",
  "edit.removeEntry": "Remove entry {n}",
  "edit.fillIn": "Fill in",
  "edit.leaveOut": "Leave out",
  "edit.error.multiple": "A multiple of {n}.",

  "interrupt.answer": "Your answer",
  "interrupt.json": "Your answer, as JSON",
  "interrupt.yes": "Yes",
  "interrupt.no": "No",

  "elicit.says": "The server “{server}” says (not verified)",
  "elicit.address": "Address",
  "elicit.host": "It leads to",
  "elicit.open": "Open the address",
  "elicit.newTab": "in a new tab",
  "elicit.noLink": "This is not the address of a web page, so it cannot be opened from here.",
  "elicit.accept": "Accept and send",
  "elicit.done": "Done",
  "elicit.decline": "Decline",
  "elicit.cancel": "Cancel",
  "elicit.hint": "“Decline” tells the server no. “Cancel” tells it that you have not chosen.",
};

const how: Record<string, string> = { decided: "Decided", timeout: "Nobody decided in time", cancelled: "Cancelled" };
const done: Record<string, string> = {
  approve: "Approved",
  reject: "Rejected",
  edit: "Approved with changes",
  changed: "Changed and sent for approval again",
  edited: "Arguments changed",
  respond: "Result entered by a person",
  defer: "Left for later",
};

const resolved = (ending: Ending = {}): string => {
  const { resolution = "decided", reason, by, answers, resume } = ending;
  const words = answers || resume !== undefined ? ["Answered"] : kindsOf(ending).map((kind) => done[kind] ?? visibleText(kind));
  const what = resolution === "decided" && words.length > 0 ? words.join(", ") : (endText(how, texts, resolution, reason) ?? `Ended (${visibleText(resolution)})`);
  return by ? `${what} by ${by}` : what;
};

/** All but the words of refusals, for pages that have their own. */
export const words: Omit<Labels, "error"> = {
  language: "en",
  texts,
  choices: { approve: "Approve", reject: "Reject", edit: "Edit", respond: "Enter result without running", defer: "Decide later" },
  again: "Try again",
  reason: "Reason (the agent will read it)",
  result: "Result to give the agent",
  comment: "Comment for the agent",
  questions: {
    place: (n, of) => `Question ${n} of ${of}`,
    several: "Choose one or more.",
    skipped: "Skipped. Choose an option to answer after all.",
    noPreference: "No preference",
    own: "Your answer",
    ownFor: (option) => `Your answer for “${option}”`,
    choose: "Choose an answer, or skip this question.",
    write: "Write your answer, or choose another option.",
    next: "Next",
    review: "Review answers",
    send: "Send answer",
    sendAll: "Send answers",
    back: "Back",
    skip: "Skip",
    decline: "Do not answer",
    reason: "Reason (the agent will read it)",
    reasonPlaceholder: "For example: decide for yourself",
    reviewHeading: "Your answers",
    change: "Change",
    changeOne: (question) => `Change the answer to: ${question}`,
  },
  send: "Send",
  sending: "Sending…",
  sent: "Sent.",
  voted: "You have approved.",
  until: "Until",
  choose: "Choose for every call.",
  unreadable: "These questions cannot be shown.",
  waitingFor: (role) => (role === undefined ? "Waiting for the session’s owner" : `Waiting for ${role}`),
  progress: (approved, quorum) => `${approved} of ${quorum} have approved`,
  inDoubt: "This may have run already, and may still be running: its outcome is unknown. Approving runs it again; rejecting does not.",
  unknownKind: (kind) => `This page does not know this kind of request, “${kind}”, and cannot answer it. A newer version of the page can.`,
  late: "Your reply came too late and did not count.",
  dismiss: "Got it",
  resolved,
};

export const english: Labels = {
  ...words,
  error: (error) =>
    error.code === "approval_already_resolved" ? `This request is already resolved: ${visibleText(resolved(endingOf(error)))}.` : error.message || error.code,
};
