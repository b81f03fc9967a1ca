import { createContext, useContext, useMemo, type ReactNode } from "react";
import type { CountersignClient, CountersignHttp } from "@countersign/client";
import { english, type Labels } from "./labels.js";

/** What the hooks and the cards work with. */
export interface Countersign {
  /** The connection; whoever made it connects and closes it. */
  client: CountersignClient;
  http: CountersignHttp;
  labels: Labels;
}

const Context = createContext<Countersign | undefined>(undefined);

interface Props {
  client: CountersignClient;
  http: CountersignHttp;
  /** The words of the cards; English where they are absent. */
  labels?: Partial<Labels>;
  children?: ReactNode;
}

/** Gives the hooks and the cards below it their connection, and the cards their words. */
export function CountersignProvider({ client, http, labels, children }: Props) {
  const value = useMemo(() => ({ client, http, labels: { ...english, ...labels } }), [client, http, labels]);
  return <Context.Provider value={value}>{children}</Context.Provider>;
}

/** What the provider above gives. */
export function useCountersign(): Countersign {
  const value = useContext(Context);
  if (!value) throw new Error("There is no <CountersignProvider client={…} http={…}> above this component.");
  return value;
}
