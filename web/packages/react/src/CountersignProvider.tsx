import { useMemo } from "react";
import { BareProvider, type BareProviderProps } from "./context.js";
import { english } from "./en.js";
import type { Labels } from "./labels.js";

interface Props extends Omit<BareProviderProps, "labels"> {
  /** The words of the cards; English where they are absent. */
  labels?: Partial<Labels> | undefined;
}

/** Gives the hooks and the cards below it their connection, and the cards their words and classes. */
export function CountersignProvider({ labels, ...props }: Props) {
  const words = useMemo(() => ({ ...english, ...labels }), [labels]);
  return <BareProvider {...props} labels={words} />;
}
