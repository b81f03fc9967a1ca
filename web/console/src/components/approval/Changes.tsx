import { useMemo } from "react";
import type { Display, JsonValue } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { diff } from "../../lib/diff.js";
import { escapedIn } from "../../lib/lookalike.js";
import { valueText } from "../../lib/values.js";
import { Visible } from "../Visible.js";

interface Props {
  before: JsonValue;
  after: JsonValue;
  /** `before` as the server shows it. */
  display?: Display | undefined;
}

/** What an edit changed: old → new, one line for each value. */
export function Changes({ before, after, display }: Props) {
  const { t } = useI18n();
  const known = useMemo(() => escapedIn(display), [display]);
  const changes = diff(before, after);
  if (changes.length === 0) return <p className="hint">{t("edit.noChanges")}</p>;
  return (
    <ul className="changes">
      {changes.map((change) => (
        <li key={change.path}>
          <code className="change-path">
            <Visible text={change.path || "·"} />
          </code>
          <span className="change-values">
            {change.before === undefined ? (
              <span className="muted">{t("edit.notSet")}</span>
            ) : (
              <del>
                <Visible text={valueText(change.before)} strict={known} />
              </del>
            )}
            <span className="arrow" role="img" aria-label={t("edit.to")}>
              →
            </span>
            {change.after === undefined ? (
              <span className="muted">{t("edit.removed")}</span>
            ) : (
              <ins>
                <Visible text={valueText(change.after)} strict={known} />
              </ins>
            )}
          </span>
        </li>
      ))}
    </ul>
  );
}
