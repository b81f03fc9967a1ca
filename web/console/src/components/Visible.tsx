import { lookalikes } from "../lib/lookalike.js";
import { segments } from "../lib/visible.js";

interface Props {
  text: string;
  /** Letters that are drawn like others too: those that are known to be, and what mixes scripts. */
  strict?: ReadonlySet<string> | undefined;
}

/** Text with its invisible and reordering characters shown as ⟨U+…⟩. */
export function Visible({ text, strict }: Props) {
  return segments(text, strict && lookalikes(text, strict)).map((segment, i) =>
    segment.hidden ? (
      <mark key={i} className="hidden-char">
        {segment.text}
      </mark>
    ) : (
      <span key={i}>{segment.text}</span>
    ),
  );
}
