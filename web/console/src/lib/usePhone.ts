import { useSyncExternalStore } from "react";

/** As in the style sheets. */
const QUERY = "(max-width: 799.98px)";

const subscribe = (listener: () => void) => {
  const query = matchMedia(QUERY);
  query.addEventListener("change", listener);
  return () => query.removeEventListener("change", listener);
};

/** Whether the page is as narrow as on a phone, where the session list lies over it. */
export const usePhone = (): boolean => useSyncExternalStore(subscribe, () => matchMedia(QUERY).matches);
