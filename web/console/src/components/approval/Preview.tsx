import { useMemo } from "react";
import type { Preview } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { hiddenParts, previewLines } from "../../lib/preview.js";

/** What a call would do, as the server found out: a diff, command lines. Plain text, whatever it says. */
export function PreviewText({ preview }: { preview: Preview | undefined }) {
  const { t } = useI18n();
  const lines = useMemo(() => (preview ? previewLines(preview) : []), [preview]);
  if (!preview) return null;
  const label = t(preview.kind === "failed" ? "preview.failed" : preview.kind === "diff" ? "preview.diff" : "preview.text");
  return (
    <div className="preview" data-kind={preview.kind}>
      <p className="label">{label}</p>
      <pre className="preview-text" dir="ltr" tabIndex={0} aria-label={label}>
        {lines.map((line, i) => (
          <span key={i} className="preview-line" data-line={line.kind}>
            {hiddenParts(line.text).map((part, j) =>
              part.hidden ? (
                <mark key={j} className="hidden-char">
                  {part.text}
                </mark>
              ) : (
                part.text
              ),
            )}
            {"\n"}
          </span>
        ))}
      </pre>
      {preview.left_out > 0 && <p className="hint warn">{t("preview.leftOut", { n: preview.left_out })}</p>}
    </div>
  );
}
