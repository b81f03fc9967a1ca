/** The forms inside a form: the members of an object, and the entries of a list. */
import { useRef } from "react";
import { problemsAt } from "../forms/edits.js";
import { errorAt, freshDraft, isGroup, MOST_ENTRIES, partOf, placeIn, type FieldDraft } from "../forms/form.js";
import { useTexts } from "../labels.js";
import { FieldName, FormField, Help, idOf, type FieldProps } from "./FormField.js";
import { Glyph } from "./Glyph.js";

export function ObjectField(props: FieldProps) {
  const { field, id, disabled, draft, onDraft } = props;
  const { t, part } = useTexts();
  const set = isGroup(draft);
  return (
    <fieldset {...part("nested")} data-invalid={isWrong(props)} disabled={disabled} aria-describedby={`${id}-help`}>
      <legend {...part("label")}>
        <FieldName {...props} />
      </legend>
      {set && (
        <div {...part("fields")}>
          {(field.fields ?? []).map((member) => (
            <Part
              key={member.name}
              {...props}
              field={member}
              label={undefined}
              part={member.name}
              onDraft={(next) => onDraft(Object.fromEntries([...Object.entries(draft), [member.name, next]]))}
            />
          ))}
        </div>
      )}
      {(!field.required || !set) && (
        <button type="button" {...part("more")} onClick={() => onDraft(set ? "" : freshDraft(field))}>
          <Glyph name={set ? "close" : "plus"} />
          {t(set ? "edit.leaveOut" : "edit.fillIn")}
        </button>
      )}
      <Own {...props} />
    </fieldset>
  );
}

export function ListField(props: FieldProps) {
  const { field, id, disabled, draft, onDraft } = props;
  const { t, part } = useTexts();
  const box = useRef<HTMLFieldSetElement>(null);
  const entries = Array.isArray(draft) ? draft : [];
  const item = field.item!;
  const put = (next: FieldDraft[]) => onDraft(next);
  return (
    <fieldset ref={box} {...part("nested")} data-invalid={isWrong(props)} disabled={disabled} aria-describedby={`${id}-help`}>
      <legend {...part("label")}>
        <FieldName {...props} />
      </legend>
      {draft === "" && <p {...part("hint")}>{t("edit.notSet")}</p>}
      {entries.length > 0 && (
        <ol {...part("entries")}>
          {entries.map((_, i) => (
            <li key={i} {...part("entry")}>
              <Part
                {...props}
                field={item}
                label={<span {...part("entry-name")}>{t("edit.entry", { n: i + 1 })}</span>}
                part={i}
                draft={entries}
                onDraft={(next) => put(entries.map((other, j) => (j === i ? next : other)))}
              />
              <button
                type="button"
                {...part("remove")}
                aria-label={t("edit.removeEntry", { n: i + 1 })}
                onClick={() => {
                  put(entries.filter((_, j) => j !== i));
                  box.current?.querySelector<HTMLElement>(':scope > [data-part="more"]')?.focus();
                }}
              >
                <Glyph name="close" />
              </button>
            </li>
          ))}
        </ol>
      )}
      {entries.length < MOST_ENTRIES && (
        <button type="button" {...part("more")} onClick={() => put([...entries, freshDraft(item)])}>
          <Glyph name="plus" />
          {t("edit.addEntry")}
        </button>
      )}
      {!field.required && draft !== "" && entries.length === 0 && (
        <button type="button" {...part("more")} onClick={() => onDraft("")}>
          <Glyph name="close" />
          {t("edit.leaveOut")}
        </button>
      )}
      <Own {...props} />
    </fieldset>
  );
}

/** One field inside. */
function Part({ part, ...props }: FieldProps & { part: string | number }) {
  const place = placeIn(props.place, part);
  return (
    <FormField
      {...props}
      id={idOf(props.id, part)}
      place={place}
      draft={partOf(props.draft, part)}
      problems={problemsAt(props.problems, place)}
    />
  );
}

/** Whether the whole has an error. A group has no `aria-invalid`; its help says it. */
const isWrong = ({ errors, place }: FieldProps) => errorAt(errors, place) !== undefined || undefined;

/** The errors of the whole, without those that a field inside shows itself. */
function Own(props: FieldProps) {
  const { field, place, problems, draft } = props;
  const parts = isGroup(draft) ? (field.fields ?? []).map((f) => f.name) : Array.isArray(draft) ? draft.map((_, i) => i) : [];
  const inside = new Set(parts.flatMap((part) => problemsAt(problems, placeIn(place, part))));
  return <Help {...props} problems={problems.filter((p) => !inside.has(p))} text="" />;
}
