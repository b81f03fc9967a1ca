import type { JsonValue } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { diff } from "../../lib/diff.js";
import { valueText } from "../../lib/values.js";
import { Visible } from "../Visible.js";

/** What an edit changed: old → new, one line for each value. */
export function Changes({ before, after }: { before: JsonValue; after: JsonValue }) {
  const { t } = useI18n();
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
                <Visible text={valueText(change.before)} />
              </del>
            )}
            <span className="arrow" role="img" aria-label={t("edit.to")}>
              →
            </span>
            {change.after === undefined ? (
              <span className="muted">{t("edit.removed")}</span>
            ) : (
              <ins>
                <Visible text={valueText(change.after)} />
              </ins>
            )}
          </span>
        </li>
      ))}
    </ul>
  );
}
