/**
 * The page's memory. Session storage: this tab's drafts and token, gone with the tab. Local
 * storage: preferences only. Storage can be switched off or full; the page then just forgets.
 */
const PREFIX = "countersign:";

function read(area: () => Storage, key: string): string | null {
  try {
    return area().getItem(PREFIX + key);
  } catch {
    return null;
  }
}

function write(area: () => Storage, key: string, value: string | null): void {
  try {
    if (value === null || value === "") area().removeItem(PREFIX + key);
    else area().setItem(PREFIX + key, value);
  } catch {
    // Nothing to do: the value lives on in memory.
  }
}

export const readLocal = (key: string) => read(() => localStorage, key);
export const writeLocal = (key: string, value: string | null) => write(() => localStorage, key, value);
export const readTab = (key: string) => read(() => sessionStorage, key);
export const writeTab = (key: string, value: string | null) => write(() => sessionStorage, key, value);

/** Forget all that this tab keeps. */
export function forgetTab(): void {
  try {
    for (const key of Object.keys(sessionStorage)) if (key.startsWith(PREFIX)) sessionStorage.removeItem(key);
  } catch {
    // Nothing was kept.
  }
}
