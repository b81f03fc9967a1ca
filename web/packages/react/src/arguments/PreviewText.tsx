import { useMemo } from "react";
import type { Preview } from "@countersign/client";
import { hiddenParts, previewLines } from "../forms/preview.js";
import { useTexts } from "../labels.js";

/** What a call would do, according to the server: a diff, command lines. Always plain text. */
export function PreviewText({ preview }: { preview: Preview | undefined }) {
  const { t, part } = useTexts();
  const lines = useMemo(() => (preview ? previewLines(preview) : []), [preview]);
  if (!preview) return null;
  const label = t(preview.kind === "failed" ? "preview.failed" : preview.kind === "diff" ? "preview.diff" : "preview.text");
  return (
    <div {...part("preview")} data-kind={preview.kind}>
      <p {...part("label")}>{label}</p>
      <pre {...part("preview-text")} dir="ltr" role="group" tabIndex={0} aria-label={label}>
        {lines.map((line, i) => (
          <span key={i} {...part("preview-line")} data-line={line.kind}>
            {hiddenParts(line.text).map((piece, j) =>
              piece.hidden ? (
                <mark key={j} {...part("hidden")}>
                  {piece.text}
                </mark>
              ) : (
                piece.text
              ),
            )}
            {"\n"}
          </span>
        ))}
      </pre>
      {preview.left_out > 0 && <p {...part("caution")}>{t("preview.leftOut", { n: preview.left_out })}</p>}
    </div>
  );
}
