/** The arguments of a call for people: names, units and formats beside the values, which stay as they are to the digit. */
import { useMemo } from "react";
import { isNumber, stringifyJson, type Display, type JsonObject, type JsonValue } from "@countersign/client";
import { visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { argTable, digitGroups, type ArgRow, type Unset } from "../../lib/argRows.js";
import { escapedIn } from "../../lib/lookalike.js";
import { fitsFormat } from "../../lib/rules.js";
import { momentText, weekdayText } from "../../lib/time.js";
import { valueText } from "../../lib/values.js";
import { Visible } from "../Visible.js";

interface Props {
  args: JsonObject;
  schema: JsonObject | undefined;
  display: Display | undefined;
  /** Long texts and lists are cut, since the exact text is below. */
  cut: boolean;
}

/** How much of a long call its table shows. */
const CUT_CHARS = 400;
const CUT_ROWS = 60;

interface Shared {
  known: ReadonlySet<string>;
  cut: boolean;
}

export function ArgTable({ args, schema, display, cut }: Props) {
  const { t } = useI18n();
  const table = useMemo(() => argTable(args, schema, cut ? CUT_ROWS : undefined), [args, schema, cut]);
  const known = useMemo(() => escapedIn(display), [display]);
  return (
    <div className="args" role="group" aria-label={t("args.region")}>
      <Rows rows={table.rows} more={table.more} shared={{ known, cut }} />
      {table.unset.length > 0 && (
        <p className="hint args-unset">
          {t("args.notSet")} <UnsetList unset={table.unset} />
        </p>
      )}
    </div>
  );
}

function UnsetList({ unset }: { unset: Unset[] }) {
  const { t } = useI18n();
  return unset.map(({ name, title, fallback }, i) => (
    <span key={name}>
      {i > 0 && t("text.comma")}
      {title === undefined ? <code>{visibleText(name)}</code> : visibleText(title)}
      {fallback !== undefined && t("text.paren", { text: t("args.default", { value: visibleText(valueText(fallback)) }) })}
    </span>
  ));
}

function Rows({ rows, more, shared }: { rows: ArgRow[]; more: number | undefined; shared: Shared }) {
  const { t } = useI18n();
  return (
    <>
      {rows.length > 0 && (
        <dl className="arg-rows">
          {rows.map((row) => (
            <div key={row.name} className="arg" data-group={row.rows ? true : undefined} data-entry={row.entry}>
              <dt>
                <RowName row={row} known={shared.known} />
              </dt>
              <dd>{row.rows ? <Rows rows={row.rows} more={row.more} shared={shared} /> : <Value row={row} shared={shared} />}</dd>
            </div>
          ))}
        </dl>
      )}
      {more !== undefined && more > 0 && <p className="hint">{t("args.more", { n: more })}</p>}
    </>
  );
}

function RowName({ row: { name, title, entry }, known }: { row: ArgRow; known: ReadonlySet<string> }) {
  if (entry) return <span className="muted">{name}.</span>;
  const raw = (
    <code className={title === undefined ? undefined : "raw-name"}>
      <Visible text={name} strict={known} />
    </code>
  );
  return title === undefined ? raw : (
    <>
      <Visible text={title} /> {raw}
    </>
  );
}

/** The value as it is, and beside it what people call it. */
function Value({ row, shared: { known, cut } }: { row: ArgRow; shared: Shared }) {
  const { t } = useI18n();
  const { value, unit } = row;
  const whole = isNumber(value) ? stringifyJson(value) : valueText(value);
  const shown = cut && whole.length > CUT_CHARS ? whole.slice(0, CUT_CHARS) : whole;
  const words = useWords(row);
  return (
    <>
      <bdi className="arg-value" data-type={typeName(value)}>
        {isNumber(value) ? (
          digitGroups(whole).map((group, i) => (
            <span key={i} className="digits">
              {group}
            </span>
          ))
        ) : (
          <Visible text={shown} strict={known} />
        )}
      </bdi>
      {unit !== undefined && <span className="muted"> {visibleText(unit)}</span>}
      {words !== undefined && <span className="muted arg-words"> · {words}</span>}
      {shown.length < whole.length && <span className="hint"> {t("args.moreChars", { n: whole.length - shown.length })}</span>}
    </>
  );
}

/** What a value means to people. */
function useWords({ value, label, format }: ArgRow): string | undefined {
  const { t, language } = useI18n();
  if (label !== undefined) return visibleText(label);
  if (typeof value === "boolean") return t(value ? "interrupt.yes" : "interrupt.no");
  if (typeof value !== "string" || format === undefined || !fitsFormat(format, value)) return undefined;
  if (format === "date-time") return momentText(value, language);
  return format === "date" ? weekdayText(value, language) : undefined;
}

const typeName = (value: JsonValue) => (isNumber(value) ? "number" : typeof value === "string" ? "text" : "json");
