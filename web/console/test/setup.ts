/** Parts of the page are tested without its beginning, which loads the texts. */
import { catalogues } from "../src/i18n/all.js";
import { loadLanguage, type Language } from "../src/i18n/index.js";

await Promise.all((Object.keys(catalogues) as Language[]).map(loadLanguage));
