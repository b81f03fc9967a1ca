/** What a node of a graph shows to who answers it: an object as its fields. */
import { isObject, stringifyJson, type Action, type JsonValue } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { valueText } from "../../lib/values.js";
import { ShownArgs } from "../approval/ShownArgs.js";
import { Visible } from "../Visible.js";

export function Payload({ action, payload }: { action: Action; payload: JsonValue | undefined }) {
  const { t } = useI18n();
  // What could deceive the eye is looked at as the server writes it, with its warnings.
  if (payload === undefined || (action.display?.warnings.length ?? 0) > 0) return <ShownArgs action={action} />;
  if (payload === null || (isObject(payload) && Object.keys(payload).length === 0)) return null;
  if (!isObject(payload)) return <Value value={payload} label={t("interrupt.shown")} />;
  return (
    <dl className="payload">
      {Object.entries(payload).map(([name, value]) => (
        <div key={name}>
          <dt>
            <Visible text={name} />
          </dt>
          <dd>
            <Value value={value} label={name} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Value({ value, label }: { value: JsonValue; label: string }) {
  const text = typeof value === "string" ? valueText(value) : stringifyJson(value, 2);
  const plain = typeof value === "string";
  const long = text.length > 600 || text.split("\n", 13).length > 12;
  return (
    <pre
      className={plain ? "payload-text" : "payload-text mono"}
      // What scrolls must be reachable without a mouse.
      {...(long ? { tabIndex: 0, role: "region", "aria-label": label } : {})}
      dir="auto"
    >
      <Visible text={text} />
    </pre>
  );
}
