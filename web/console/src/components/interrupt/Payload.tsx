/** What a node of a graph shows to the person who answers: an object as its fields. */
import { isObject, stringifyJson, type Action, type JsonValue } from "@countersign/client";
import { Arguments, Visible } from "@countersign/react";
import { valueText } from "@countersign/react/forms";
import { useI18n } from "../../i18n/index.js";

export function Payload({ action, payload }: { action: Action; payload: JsonValue | undefined }) {
  const { t } = useI18n();
  // Text that could deceive the eye is shown as the server writes it, with its warnings.
  if (payload === undefined || (action.display?.warnings.length ?? 0) > 0) return <Arguments action={action} />;
  return hasContent(payload) ? <Plain value={payload} label={t("interrupt.shown")} /> : null;
}

/** Whether there is anything to look at. */
export function hasContent(payload: JsonValue | undefined): boolean {
  return payload !== null && !(isObject(payload) && Object.keys(payload).length === 0);
}

/** A value for people: an object as its fields, a list of plain values as a list. */
export function Plain({ value, label }: { value: JsonValue; label: string }) {
  if (!isObject(value) || Object.keys(value).length === 0) return <Value value={value} label={label} />;
  return (
    <dl className="payload">
      {Object.entries(value).map(([name, part]) => (
        <div key={name}>
          <dt>
            <Visible text={name} />
          </dt>
          <dd>
            <Value value={part} label={name} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Value({ value, label }: { value: JsonValue; label: string }) {
  const { t } = useI18n();
  const list = Array.isArray(value) && value.length > 0 && value.every((v) => typeof v === "string") ? value : undefined;
  const plain = typeof value === "string" || typeof value === "boolean";
  const text =
    typeof value === "boolean" ? t(value ? "interrupt.yes" : "interrupt.no") : plain ? valueText(value) : stringifyJson(value, 2);
  const long = text.length > 600 || text.split("\n", 13).length > 12;
  // Scrolling content must be reachable without a mouse.
  const scrolls = long ? { tabIndex: 0, role: "region", "aria-label": label } : {};
  if (list) {
    return (
      <div className="payload-text" dir="auto" {...scrolls}>
        <ul>
          {list.map((item, i) => (
            <li key={i}>
              <Visible text={valueText(item)} />
            </li>
          ))}
        </ul>
      </div>
    );
  }
  return (
    <pre className={plain ? "payload-text" : "payload-text mono"} dir="auto" {...scrolls}>
      <Visible text={text} />
    </pre>
  );
}
