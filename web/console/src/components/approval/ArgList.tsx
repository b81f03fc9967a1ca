import type { JsonObject, JsonValue } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { containsHidden, isLong, valueText } from "../../lib/values.js";
import { Visible } from "../Visible.js";

/** Arguments for reading: every name and value in full, exactly as they are. */
export function ArgList({ args }: { args: JsonObject }) {
  const { t } = useI18n();
  const entries = Object.entries(args);
  if (entries.length === 0) return <p className="muted">{t("card.noArgs")}</p>;
  return (
    <>
      <dl className="args">
        {entries.map(([name, value]) => (
          <div key={name} className="arg" data-long={isLong(value) || undefined}>
            <dt>
              <Visible text={name} />
            </dt>
            <dd>
              <Value value={value} />
            </dd>
          </div>
        ))}
      </dl>
      {containsHidden(args) && (
        <p className="hint warn">{t("card.hidden")}</p>
      )}
    </>
  );
}

export function Value({ value }: { value: JsonValue }) {
  const text = valueText(value);
  if (!isLong(value)) {
    return (
      <code data-type={value === null ? "null" : typeof value === "string" ? "string" : "other"}>
        <Visible text={text} />
      </code>
    );
  }
  return (
    <pre tabIndex={0}>
      <Visible text={text} />
    </pre>
  );
}
