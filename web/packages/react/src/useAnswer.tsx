import { useRef, useState, type ReactNode, type RefObject } from "react";
import type { JsonValue } from "@countersign/client";
import { AnswerFields, focusWrong } from "./arguments/AnswerFields.js";
import { emptyAnswer, readAnswer, type AnswerDraft, type FieldsForm } from "./forms/answer.js";
import type { Problem } from "./arguments/Problems.js";
import { argumentOf, problemsAt, problemsOf, type FieldProblem } from "./forms/edits.js";
import { placeIn } from "./forms/form.js";
import { useDraft } from "./useDraft.js";
import type { Replying } from "./useReply.js";

export interface AnswerOptions {
  form: FieldsForm;
  /** The name under which the tab keeps the input. */
  draftKey: string;
  replying: Replying;
  /** The problems that the server found, as if they were about the form. */
  problemsIn?: (problems: FieldProblem[]) => FieldProblem[];
}

export interface Answering {
  formRef: RefObject<HTMLFormElement | null>;
  /** The fields, to be rendered inside the form. */
  fields: ReactNode;
  /** The problems that the server found and no field shows. */
  problems: Problem[];
  /** Whether sending was tried, and the input cannot be read. */
  wrong: boolean;
  /** Sends the input, or moves to its first error. `resumeOf`: makes the answer of which it is a part. */
  submit: (resumeOf?: (value: JsonValue) => JsonValue) => void;
  /** Sends another answer. */
  send: (resume: JsonValue) => Promise<void>;
}

/** Filling in the form of an answer, and sending it. */
export function useAnswer({ form, draftKey, replying, problemsIn = (problems) => problems }: AnswerOptions): Answering {
  const [draft, setDraft] = useDraft<AnswerDraft>(draftKey, () => emptyAnswer(form));
  const [tried, setTried] = useState(false);
  const formRef = useRef<HTMLFormElement>(null);
  const busy = replying.state !== "idle";
  const read = readAnswer(form, draft);
  const send = async (resume: JsonValue) => {
    if (!busy && (await replying.send({ resume }))) setDraft(undefined);
  };
  const submit = (resumeOf = (value: JsonValue) => value) => {
    if (read.ok) return void send(resumeOf(read.value));
    setTried(true);
    focusWrong(formRef.current);
  };
  const refused = replying.error?.code === "invalid_resume" ? problemsIn(problemsOf(replying.error.details)) : [];
  const places = (form.kind === "object" ? form.fields : [form.field]).map(({ name }) => placeIn("", name));
  const problems = refused
    .filter((p) => p.pointer === "" || !places.some((place) => problemsAt([p], place).length > 0))
    .map((p) => ({ what: argumentOf(p.pointer), message: p.message }));
  const fields = (
    <AnswerFields
      form={form}
      draft={draft}
      errors={tried && !read.ok ? read.errors : {}}
      problems={refused}
      disabled={busy}
      onDraft={(next) => {
        replying.clearError();
        setDraft(next);
      }}
    />
  );
  return { formRef, fields, problems, wrong: tried && !read.ok, submit, send };
}
