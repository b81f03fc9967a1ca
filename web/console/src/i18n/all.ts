/** All languages at once, for tests: the page loads only its own. */
import { en, type Catalogue } from "./en.js";
import type { Language } from "./index.js";
import { vi } from "./vi.js";
import { zh } from "./zh.js";

export const catalogues: Record<Language, Catalogue> = { en, vi, zh };
