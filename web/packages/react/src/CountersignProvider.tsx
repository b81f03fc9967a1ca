import { useMemo } from "react";
import { BareProvider, type BareProviderProps } from "./context.js";
import { english } from "./en.js";
import { withWords, type PartialLabels } from "./labels.js";

export interface CountersignProviderProps extends Omit<BareProviderProps, "labels"> {
  /** The words of the cards; each that is absent is English. */
  labels?: PartialLabels | undefined;
}

/** Provides the hooks and the cards below it with their connection, and the cards with their words and classes. */
export function CountersignProvider({ labels, ...props }: CountersignProviderProps) {
  const words = useMemo(() => withWords(labels, english), [labels]);
  return <BareProvider {...props} labels={words} />;
}
