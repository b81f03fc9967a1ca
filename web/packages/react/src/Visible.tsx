import { useContext } from "react";
import { Parts } from "./context.js";
import { lookalikes, MARKS } from "./forms/lookalike.js";
import { segments, type Segment } from "./visibleText.js";

interface Props {
  text: string;
  /** Lookalike letters are also shown this way: those in words that mix scripts, or the given ones. */
  strict?: ReadonlySet<string> | boolean | undefined;
}

/** Text with its invisible and reordering characters shown as ⟨U+…⟩. */
export function Visible({ text, strict }: Props) {
  const part = useContext(Parts);
  return bounded(segments(text, strict ? lookalikes(text, strict === true ? undefined : strict) : undefined)).map((segment, i) =>
    segment.hidden ? (
      <mark key={i} {...part("hidden")}>
        {segment.text}
      </mark>
    ) : (
      <span key={i}>{segment.text}</span>
    ),
  );
}

/** After this many marks it is one text, with the same characters spelled out, so that the page stays usable. */
function bounded(all: Segment[]): Segment[] {
  if (all.length <= MARKS) return all;
  const rest = all.slice(MARKS).map((segment) => segment.text);
  return [...all.slice(0, MARKS), { text: rest.join(""), hidden: false }];
}
