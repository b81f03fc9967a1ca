import { useContext } from "react";
import { Parts } from "./context.js";
import { lookalikes } from "./forms/lookalike.js";
import { segments } from "./visibleText.js";

interface Props {
  text: string;
  /** Letters that are drawn like others are shown so too: these, and what mixes scripts. */
  strict?: ReadonlySet<string> | undefined;
}

/** Text with its invisible and reordering characters shown as ⟨U+…⟩. */
export function Visible({ text, strict }: Props) {
  const part = useContext(Parts);
  return segments(text, strict && lookalikes(text, strict)).map((segment, i) =>
    segment.hidden ? (
      <mark key={i} {...part("hidden")}>
        {segment.text}
      </mark>
    ) : (
      <span key={i}>{segment.text}</span>
    ),
  );
}
