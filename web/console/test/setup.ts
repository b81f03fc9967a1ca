/** The console's parts are tested without its entry point, which loads the texts. Tests of the packages need none. */
import { expect } from "vitest";

if (expect.getState().testPath?.includes("/console/test/")) {
  const [{ catalogues }, { loadLanguage }] = await Promise.all([import("../src/i18n/all.js"), import("../src/i18n/index.js")]);
  await Promise.all((Object.keys(catalogues) as (keyof typeof catalogues)[]).map(loadLanguage));
}
