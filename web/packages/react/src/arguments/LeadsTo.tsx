import { useEffect, useRef } from "react";
import type { CountersignError, EditPreview, ReviewConfig } from "@countersign/client";
import { argumentOf, asksFromTheStart, type FieldProblem } from "../forms/edits.js";
import { roleName, useLabels, useTexts } from "../labels.js";
import type { EditPreviewing } from "../useEditPreview.js";
import { Visible } from "../Visible.js";
import { visibleText } from "../visibleText.js";
import { fieldErrorText } from "./FormField.js";
import { Glyph } from "./Glyph.js";
import { Problems } from "./Problems.js";

/** The maximum number of problems listed here; each field shows its own. */
const MOST = 3;

export interface LeadsToProps {
  editing: EditPreviewing;
  /** The problems that the server found with the arguments, from `editProblems`. */
  problems: FieldProblem[];
}

/** The outcome of an edit, while it is made. */
export function LeadsTo({ editing, problems }: LeadsToProps) {
  const { t, part } = useTexts();
  const { again } = useLabels();
  const { state, found, error, retry } = editing;
  const box = useRef<HTMLDivElement>(null);
  // It grows over the form: the field that has the focus stays in view.
  useEffect(() => {
    const field = document.activeElement;
    const form = field?.closest('[data-part="editor"]');
    if (form && box.current?.closest('[data-part="call"]')?.contains(form)) field?.scrollIntoView({ block: "nearest" });
  }, [state]);
  return (
    <div ref={box} {...part("leads-to")} data-state={state} data-outcome={found?.outcome} aria-live="polite" aria-busy={state === "asking"}>
      {state === "asking" && <p {...part("hint")}>{t("edit.checking")}</p>}
      {error ? (
        <div {...part("problem")}>
          <Refusal error={error} />
        </div>
      ) : (
        found && <Verdict found={found} problems={problems} />
      )}
      {found?.preview?.kind === "failed" && <p {...part("caution")}>{t("preview.failed")}</p>}
      {state === "failed" && (
        <button type="button" {...part("link")} onClick={retry}>
          {again}
        </button>
      )}
    </div>
  );
}

function Verdict({ found, problems }: { found: EditPreview; problems: FieldProblem[] }) {
  const { t, part } = useTexts();
  if (found.error || found.outcome === "refused") return <Refused error={found.error} problems={problems} />;
  if (asksFromTheStart(found)) return <NeedsApproval asked={found.reviewConfig ?? {}} />;
  const known = found.outcome === "approves" || found.outcome === "asks";
  return <p {...part("hint")}>{known ? t("edit.accepted") : <Visible text={found.outcome} />}</p>;
}

function Refused({ error, problems }: { error: CountersignError | undefined; problems: FieldProblem[] }) {
  const { t, part } = useTexts();
  const wrong = problems.slice(0, MOST).map((p) => ({ what: argumentOf(p.pointer), message: p.message, own: p.error && fieldErrorText(p.error, t) }));
  return (
    <div {...part("problem")}>
      <p>{t("edit.refused")}</p>
      {wrong.length > 0 ? <Problems problems={wrong} /> : error && <Refusal error={error} />}
    </div>
  );
}

function NeedsApproval({ asked: { role, reason } }: { asked: ReviewConfig }) {
  const { t, part } = useTexts();
  return (
    <p {...part("note")} data-bar="edit">
      <Glyph name="shield" />
      <span>
        {t("edit.needsApproval", { role: roleName(role, t) })}
        {reason && t("text.paren", { text: visibleText(reason) })}
      </span>
    </p>
  );
}

/** The outcome of an edit that is not an approval. */
export function EditAsks({ config, role }: { config: ReviewConfig; role: string | undefined }) {
  const { t, part } = useTexts();
  const { level = 1, levels, not_self } = config;
  return (
    <p {...part("note")} data-bar="edit">
      <Glyph name="shield" />
      <span>
        {level > 1 ? t("edit.restarts", { role: roleName(levels?.[0], t) }) : t("edit.asks")}{" "}
        {not_self && role !== undefined && t("edit.notSelf", { role: roleName(role, t) })}
      </span>
    </p>
  );
}

/** A refusal in the words of the page. */
export function Refusal({ error }: { error: CountersignError }) {
  const said = useLabels().error(error);
  return typeof said === "string" ? <Visible text={said} /> : said;
}
