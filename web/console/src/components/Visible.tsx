import { Visible as Shown } from "@countersign/react";
import { lookalikes } from "../lib/lookalike.js";

interface Props {
  text: string;
  /** Letters that are drawn like others too: those that are known to be, and what mixes scripts. */
  strict?: ReadonlySet<string> | undefined;
}

/** Text with its invisible and reordering characters shown as ⟨U+…⟩. */
export function Visible({ text, strict }: Props) {
  return <Shown text={text} more={strict && lookalikes(text, strict)} />;
}
