/** The arguments of a call for people: names, units and formats beside the values, which stay exact to the digit. */
import { useMemo } from "react";
import { isNumber, stringifyJson, type Display, type JsonObject, type JsonValue } from "@countersign/client";
import { weekdayText, zonedText } from "../forms/dates.js";
import { escapedIn } from "../forms/lookalike.js";
import { argTable, digitGroups, type ArgRow, type Unset } from "../forms/rows.js";
import { fitsFormat } from "../forms/rules.js";
import { valueText } from "../forms/values.js";
import { useTexts } from "../labels.js";
import { Visible } from "../Visible.js";
import { visibleText } from "../visibleText.js";

interface Props {
  args: JsonObject;
  schema: JsonObject | undefined;
  display: Display | undefined;
  /** Whether long texts and lists are cut, since the exact text is below. */
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
  const { t, part } = useTexts();
  const table = useMemo(() => argTable(args, schema, cut ? CUT_ROWS : undefined), [args, schema, cut]);
  const known = useMemo(() => escapedIn(display), [display]);
  return (
    <div {...part("args")} role="group" aria-label={t("args.region")}>
      <Rows rows={table.rows} more={table.more} shared={{ known, cut }} />
      {table.unset.length > 0 && (
        <p {...part("args-unset")}>
          {t("args.notSet")}<UnsetList unset={table.unset} />
        </p>
      )}
    </div>
  );
}

function UnsetList({ unset }: { unset: Unset[] }) {
  const { t } = useTexts();
  return unset.map(({ name, title, fallback }, i) => (
    <span key={name}>
      {i > 0 && t("text.list")}
      {title === undefined ? <code>{visibleText(name)}</code> : visibleText(title)}
      {fallback !== undefined && t("text.paren", { text: t("args.default", { value: visibleText(valueText(fallback)) }) })}
    </span>
  ));
}

function Rows({ rows, more, shared }: { rows: ArgRow[]; more: number | undefined; shared: Shared }) {
  const { t, part } = useTexts();
  return (
    <>
      {rows.length > 0 && (
        <dl {...part("arg-rows")}>
          {rows.map((row) => (
            <div key={row.name} {...part("arg")} data-group={row.rows ? true : undefined} data-entry={row.entry}>
              <dt>
                <RowName row={row} known={shared.known} />
              </dt>
              <dd>{row.rows ? <Rows rows={row.rows} more={row.more} shared={shared} /> : <Value row={row} shared={shared} />}</dd>
            </div>
          ))}
        </dl>
      )}
      {more !== undefined && more > 0 && <p {...part("hint")}>{t("args.more", { n: more })}</p>}
    </>
  );
}

function RowName({ row: { name, title, entry }, known }: { row: ArgRow; known: ReadonlySet<string> }) {
  const { part } = useTexts();
  if (entry) return <span {...part("muted")}>{name}.</span>;
  const raw = (
    <code {...(title === undefined ? {} : part("raw-name"))}>
      <Visible text={name} strict={known} />
    </code>
  );
  return title === undefined ? raw : (
    <>
      <Visible text={title} /> {raw}
    </>
  );
}

/** The exact value, and beside it the name that people use. */
function Value({ row, shared: { known, cut } }: { row: ArgRow; shared: Shared }) {
  const { t, part } = useTexts();
  const { value, unit } = row;
  const whole = isNumber(value) ? stringifyJson(value) : valueText(value);
  const shown = cut && whole.length > CUT_CHARS ? whole.slice(0, CUT_CHARS) : whole;
  const words = useWords(row);
  return (
    <>
      <bdi {...part("arg-value")} data-type={typeName(value)}>
        {isNumber(value) ? (
          digitGroups(whole).map((group, i) => (
            <span key={i} {...part("digits")}>
              {group}
            </span>
          ))
        ) : (
          <Visible text={shown} strict={known} />
        )}
      </bdi>
      {unit !== undefined && <span {...part("muted")}> {visibleText(unit)}</span>}
      {words !== undefined && <span {...part("arg-words")}> · {words}</span>}
      {shown.length < whole.length && <span {...part("hint")}> {t("args.moreChars", { n: whole.length - shown.length })}</span>}
    </>
  );
}

/** The meaning of a value for people. */
function useWords({ value, label, format }: ArgRow): string | undefined {
  const { t, language } = useTexts();
  if (label !== undefined) return visibleText(label);
  if (typeof value === "boolean") return t(value ? "interrupt.yes" : "interrupt.no");
  if (typeof value !== "string" || format === undefined || !fitsFormat(format, value)) return undefined;
  if (format === "date-time") return zonedText(value, language);
  return format === "date" ? weekdayText(value, language) : undefined;
}

const typeName = (value: JsonValue) => (isNumber(value) ? "number" : typeof value === "string" ? "text" : "json");
