/** What can be changed at an earlier point: the message with which a turn begins, or the calls that have not begun. */
import { useId, useState } from "react";
import { configOf, type ForkRequest, type InputContent } from "@countersign/client";
import { equalJson } from "@countersign/client";
import { ArgumentForm, EditChanges, visibleText } from "@countersign/react";
import { argFields, newEdit, readEdit, type EditDraft } from "@countersign/react/forms";
import { useI18n } from "../../i18n/index.js";
import type { Editable, PastCall } from "../../lib/past.js";

type Edit = NonNullable<ForkRequest["edit"]>;

interface Props {
  editable: Editable;
  busy: boolean;
  onFork: (edit: Edit) => void;
}

export function PointEdit({ editable: { message, calls }, busy, onFork }: Props) {
  if (message) return <MessageEdit message={message} busy={busy} onFork={onFork} />;
  return calls.map((call) => <CallEdit key={call.id} call={call} busy={busy} onFork={onFork} />);
}

function MessageEdit({ message, busy, onFork }: { message: NonNullable<Editable["message"]>; busy: boolean; onFork: Props["onFork"] }) {
  const { t } = useI18n();
  const id = useId();
  const [text, setText] = useState(message.text);
  const images: InputContent[] = message.images.map((source) => ({ type: "image", source }));
  const next = message.text === "" && images.length === 0;
  const words = text.trim() ? [{ type: "text" as const, text }] : [];
  const send = () => onFork({ message: images.length > 0 ? images.toSpliced(message.before, 0, ...words) : text });
  return (
    <div className="field past-edit">
      <label className="label" htmlFor={id}>
        {t(next ? "past.nextMessage" : "past.otherMessage")}
      </label>
      <textarea id={id} className="input" rows={2} value={text} disabled={busy} onChange={(e) => setText(e.target.value)} />
      <button
        type="button"
        className="button small"
        disabled={busy || text === message.text || (text.trim() === "" && images.length === 0)}
        onClick={send}
      >
        {t(next ? "past.forkNext" : "past.forkMessage")}
      </button>
    </div>
  );
}

function CallEdit({ call, busy, onFork }: { call: PastCall; busy: boolean; onFork: Props["onFork"] }) {
  const { t } = useI18n();
  const { args, approval } = call;
  const action = approval?.of.actions[approval.index];
  const config = approval ? configOf(approval.of, approval.index) : {};
  const fields = action && argFields(action, config);
  const [draft, setDraft] = useState<EditDraft>();
  const edit = draft ?? newEdit(fields, args);
  const read = readEdit(edit, fields, args);
  const name = visibleText(call.name);
  if (!draft) {
    return (
      <button type="button" className="link past-edit" disabled={busy} onClick={() => setDraft(edit)}>
        {t("past.otherCall", { tool: name })}
      </button>
    );
  }
  const shared = { original: args, display: action?.display, fields, draft: edit, disabled: busy, onChange: setDraft };
  return (
    <div className="past-edit" role="group" aria-label={t("past.otherCall", { tool: name })}>
      <ArgumentForm {...shared} problems={[]} />
      <EditChanges {...shared} schema={config.args_schema} />
      <button
        type="button"
        className="button small"
        disabled={busy || !read.ok || equalJson(read.args, args)}
        onClick={() => read.ok && onFork({ calls: [{ tool_use_id: call.id, args: read.args }] })}
      >
        {t("past.forkCall")}
      </button>
    </div>
  );
}
