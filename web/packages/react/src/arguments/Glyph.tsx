import { useContext } from "react";
import { Parts } from "../context.js";

const paths = {
  plus: "M10 4v12M4 10h12",
  close: "M5 5l10 10M15 5L5 15",
  warning: "M10 3.5l7 12.5H3l7-12.5zm0 4.5v4m0 2v.01",
  shield: "M10 3l6 2v5c0 3.5-2.5 6-6 7-3.5-1-6-3.5-6-7V5l6-2z",
  comment: "M4 4.5h12v9H9l-3.5 3v-3H4v-9z",
  outside: "M11 4h5v5M16 4l-7.5 7.5M13.5 11.5V16H4V6.5h4.5",
} as const;

/** Decoration, in the colour of the text around it: labels carry the meaning. */
export function Glyph({ name }: { name: keyof typeof paths }) {
  const part = useContext(Parts);
  return (
    <svg {...part("icon")} width="16" height="16" viewBox="0 0 20 20" fill="none" stroke="currentColor" strokeWidth="1.7" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}
