import { useTexts } from "../labels.js";
import { Visible } from "../Visible.js";

/** A problem that the server found; `own`: in words of the page. */
export interface Problem {
  what: string;
  message: string;
  own?: string | undefined;
}

/** The problems, one by one. */
export function Problems({ problems }: { problems: readonly Problem[] }) {
  const { t } = useTexts();
  if (problems.length === 0) return null;
  return (
    <ul>
      {problems.map((p) => (
        <li key={p.what + p.message}>
          {p.what && <code><Visible text={p.what} /></code>}{" "}
          {p.own ?? (
            <>
              {t("refusal.reason")}<span lang="en"><Visible text={p.message} /></span>
            </>
          )}
        </li>
      ))}
    </ul>
  );
}
