import { createContext, Fragment, useContext, useMemo, type ReactNode } from "react";
import type { CountersignClient, CountersignHttp } from "@countersign/client";
import type { Labels } from "./labels.js";
import type { ClassNames, PartName } from "./parts.js";

/** The context of the hooks. */
export interface Countersign {
  /** The connection; its creator connects and closes it. */
  client: CountersignClient;
  http: CountersignHttp;
}

/** The attribute that marks a part of a card, for styles. */
export type Part = (name: PartName) => { "data-part": PartName; className?: string };

const partsOf =
  (classNames: ClassNames): Part =>
  (name) => ({ "data-part": name, ...(classNames[name] === undefined ? {} : { className: classNames[name] }) });

const Context = createContext<Countersign | undefined>(undefined);
export const Words = createContext<Labels | undefined>(undefined);
export const Parts = createContext<Part>(partsOf({}));

export interface BareProviderProps {
  client: CountersignClient;
  http: CountersignHttp;
  /** The words of the cards. */
  labels: Labels;
  classNames?: ClassNames | undefined;
  children?: ReactNode;
}

const NONE = {};

const numbers = new WeakMap<CountersignClient, number>();
let last = 0;

/** Another client is another person's: components drop their memory of the one before. */
function numberOf(client: CountersignClient): number {
  if (!numbers.has(client)) numbers.set(client, ++last);
  return numbers.get(client) ?? 0;
}

/** `CountersignProvider` for pages that have all words of their own, and so do not load the English ones. */
export function BareProvider({ client, http, labels, classNames = NONE, children }: BareProviderProps) {
  const value = useMemo(() => ({ client, http }), [client, http]);
  const part = useMemo(() => partsOf(classNames), [classNames]);
  return (
    <Context.Provider value={value}>
      <Words.Provider value={labels}>
        <Parts.Provider value={part}>
          <Fragment key={numberOf(client)}>{children}</Fragment>
        </Parts.Provider>
      </Words.Provider>
    </Context.Provider>
  );
}

export const NO_PROVIDER = "There is no <CountersignProvider client={…} http={…}> above this component.";

/** The value of the provider above. */
export function useCountersign(): Countersign {
  const value = useContext(Context);
  if (!value) throw new Error(NO_PROVIDER);
  return value;
}
