import { useContext } from "react";
import { Parts } from "./context.js";
import { segments } from "./visible.js";

interface Props {
  text: string;
  /** Indexes of other characters to show so. */
  more?: ReadonlySet<number> | undefined;
}

/** Text with its invisible and reordering characters shown as ⟨U+…⟩. */
export function Visible({ text, more }: Props) {
  const part = useContext(Parts);
  return segments(text, more).map((segment, i) =>
    segment.hidden ? (
      <mark key={i} {...part("hidden")}>
        {segment.text}
      </mark>
    ) : (
      <span key={i}>{segment.text}</span>
    ),
  );
}
