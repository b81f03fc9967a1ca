/** What would run, as the server shows it: the same text on every screen, made from the bytes that will run. */
import { useId, useMemo, useRef, useState } from "react";
import type { Action, Display } from "@countersign/client";
import { isMessageKey, useI18n, type Translate } from "../../i18n/index.js";
import { isLongText, shownParts, textOf, totals } from "../../lib/shown.js";
import { Icon } from "../Icon.js";

interface Props {
  action: Action;
  /** Called once the whole text has been in view. Without it nothing waits for that. */
  onSeen?: () => void;
  seen?: boolean;
}

export function ShownArgs({ action, onSeen, seen = false }: Props) {
  const { t, language } = useI18n();
  const id = useId();
  const { display } = action;
  const text = textOf(action);
  const long = isLongText(text);
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLPreElement>(null);
  const look = () => {
    const pre = box.current;
    // Less than a line from the end is the end.
    if (pre && pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 12) onSeen?.();
  };

  return (
    <div className="shown" data-long={(long && !open) || undefined}>
      {display && display.warnings.length > 0 && <Warnings display={display} />}
      {long && onSeen && (
        <div className="shown-more">
          {!seen && (
            <p id={`${id}-long`} className="hint warn">
              {t("shown.long")}
            </p>
          )}
          {!open && (
            <button
              type="button"
              className="link"
              onClick={() => {
                setOpen(true);
                onSeen();
              }}
            >
              {t("shown.all")}
            </button>
          )}
        </div>
      )}
      <pre
        ref={box}
        className="shown-text"
        dir="ltr"
        tabIndex={0}
        aria-label={t("shown.region")}
        aria-describedby={long && onSeen && !seen ? `${id}-long` : undefined}
        onScroll={long ? look : undefined}
      >
        <ShownText text={text} />
      </pre>
      {display && (
        <details className="shown-size">
          <summary title={action.args_digest}>
            {t("shown.size", { n: display.bytes.toLocaleString(language) })}
            {action.args_digest && <> · SHA-256 {action.args_digest.slice(0, 12)}…</>}
          </summary>
          <dl>
            {action.args_digest && (
              <>
                <dt>{t("shown.hashArgs")}</dt>
                <dd>
                  <code>{action.args_digest}</code>
                </dd>
              </>
            )}
            <dt>{t("shown.hashText")}</dt>
            <dd>
              <code>{display.digest}</code>
            </dd>
          </dl>
        </details>
      )}
    </div>
  );
}

/** The text as it is, with its escapes marked. */
export function ShownText({ text }: { text: string }) {
  const parts = useMemo(() => shownParts(text), [text]);
  return parts.map((part, i) =>
    part.kind === "plain" ? (
      part.text
    ) : part.kind === "hidden" ? (
      <mark key={i} className="hidden-char">
        {part.text}
      </mark>
    ) : (
      <span key={i} className="shown-break">
        {part.text}
      </span>
    ),
  );
}

function Warnings({ display }: { display: Display }) {
  const { t } = useI18n();
  const { warnings } = display;
  return (
    <div className="shown-warning">
      <Icon name="warning" />
      <div>
        <p>
          {t("shown.warning")} {totals(warnings).map(([kind, n]) => kindText(kind, n, t)).join(", ")}
        </p>
        <details>
          <summary>{t("shown.places")}</summary>
          <ul>
            {warnings.map(({ kind, pointer, count }) => (
              <li key={`${kind} ${pointer}`}>
                {pointer === "" ? t("shown.elsewhere") : <code>{pointer}</code>}: {kindText(kind, count, t)}
              </li>
            ))}
          </ul>
        </details>
      </div>
    </div>
  );
}

function kindText(kind: string, n: number, t: Translate): string {
  const key = `shown.${kind}`;
  return isMessageKey(key) ? t(key, { n }) : `${kind}: ${n}`;
}
