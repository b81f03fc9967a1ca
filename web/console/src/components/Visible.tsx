import { segments } from "../lib/visible.js";

/** Text with its invisible and reordering characters shown as ⟨U+…⟩. */
export function Visible({ text }: { text: string }) {
  return segments(text).map((segment, i) =>
    segment.hidden ? (
      <mark key={i} className="hidden-char">
        {segment.text}
      </mark>
    ) : (
      <span key={i}>{segment.text}</span>
    ),
  );
}
