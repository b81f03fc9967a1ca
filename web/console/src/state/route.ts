/** The open session is in the address (`#/s/<id>`), so a reload or a link brings it back. */
import { Store } from "./store.js";

export interface Route {
  sessionId: string | undefined;
  /** The list of standing rules. */
  rules: boolean;
}

export const rulesHref = "#/rules";

function read(): Route {
  const match = /^#\/s\/([A-Za-z0-9._-]{1,128})$/.exec(location.hash);
  return { sessionId: match?.[1], rules: location.hash === rulesHref };
}

export const route = new Store<Route>(read());

window.addEventListener("hashchange", () => route.set(read()));

export const sessionHref = (id: string) => `#/s/${id}`;
export const newHref = "#/";

export function openSession(id: string): void {
  location.hash = sessionHref(id);
}
