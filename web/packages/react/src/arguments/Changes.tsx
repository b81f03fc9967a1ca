import { useMemo } from "react";
import type { Display, JsonObject, JsonValue } from "@countersign/client";
import { diff, type Change } from "../forms/diff.js";
import { escapedIn } from "../forms/lookalike.js";
import { titlesAt } from "../forms/schema.js";
import { valueText } from "../forms/values.js";
import { useTexts } from "../labels.js";
import { Visible } from "../Visible.js";

export interface ChangesProps {
  /** The tool, and its replacement, if the edit can change it. */
  names?: readonly [string, string];
  before: JsonValue;
  after: JsonValue;
  /** `before` as the server shows it. */
  display?: Display | undefined;
  /** The schema of the arguments, for the names that people know. */
  schema?: JsonObject | undefined;
}

/** What an edit changed: old → new, one line for each value. */
export function Changes({ names, before, after, display, schema }: ChangesProps) {
  const { t, part } = useTexts();
  const known = useMemo(() => escapedIn(display), [display]);
  const changes = diff(before, after);
  const renamed = names && names[0] !== names[1] ? names : undefined;
  if (changes.length === 0 && !renamed) return <p {...part("hint")}>{t("edit.noChanges")}</p>;
  return (
    <ul {...part("changes")}>
      {renamed && (
        <li>
          <span {...part("change-values")}>
            <del>
              <bdi>
                <code>
                  <Visible text={renamed[0]} />
                </code>
              </bdi>
            </del>
            <Arrow />
            <ins>
              <bdi>
                <code>
                  <Visible text={renamed[1]} />
                </code>
              </bdi>
            </ins>
          </span>
        </li>
      )}
      {changes.map((change) => (
        <li key={change.path}>
          <ChangeName change={change} schema={schema} known={known} />
          <span {...part("change-values")}>
            {change.before === undefined ? (
              <span {...part("muted")}>{t("edit.notSet")}</span>
            ) : (
              <del>
                <bdi>
                  <Visible text={valueText(change.before)} strict={known} />
                </bdi>
              </del>
            )}
            <Arrow />
            {change.after === undefined ? (
              <span {...part("muted")}>{t("edit.removed")}</span>
            ) : (
              <ins>
                <bdi>
                  <Visible text={valueText(change.after)} strict={known} />
                </bdi>
              </ins>
            )}
          </span>
        </li>
      ))}
    </ul>
  );
}

/** Its place: under the name that people know, if it has one, and in the JSON. */
function ChangeName({ change: { path, at }, schema, known }: { change: Change; schema: JsonObject | undefined; known: ReadonlySet<string> }) {
  const { part } = useTexts();
  const title = titlesAt(schema, at);
  return (
    <span {...part("change-path")}>
      {title !== undefined && (
        <>
          <Visible text={title} />{" "}
        </>
      )}
      <code {...(title === undefined ? {} : part("raw-name"))}>
        <Visible text={path || "·"} strict={known} />
      </code>
    </span>
  );
}

function Arrow() {
  const { t, part } = useTexts();
  return (
    <span {...part("arrow")} role="img" aria-label={t("edit.to")}>
      →
    </span>
  );
}
