/** What would run, as the server shows it: the same text on every screen, made from the bytes that will run. */
import { useId, useMemo, useRef, useState } from "react";
import type { Action, Display, ReviewConfig } from "@countersign/client";
import { shownArgs } from "../drafts.js";
import { isLongText, shownParts, totals } from "../forms/shown.js";
import { useTexts, type Tell } from "../labels.js";
import { ArgTable } from "./ArgTable.js";
import { Glyph } from "./Glyph.js";

export interface ArgumentsProps {
  action: Action;
  /**
   * The review config, which has the names of the arguments: with it they are a table, and the text is one click away.
   */
  config?: ReviewConfig | undefined;
  /** Called once the whole text has been in view. Without it nothing depends on that. */
  onSeen?: () => void;
  seen?: boolean;
}

export function Arguments({ action, config, onSeen, seen = false }: ArgumentsProps) {
  const { t, part } = useTexts();
  const id = useId();
  const { args, display } = action;
  const text = shownArgs(action);
  const long = isLongText(text);
  const warned = display !== undefined && display.warnings.length > 0;
  const tabled = config !== undefined && Object.keys(args).length > 0;
  // Text that could mislead, or that the table cuts, is shown exactly without a click.
  const exact = !tabled || warned || long;
  const [chosen, setChosen] = useState<boolean>();
  const [open, setOpen] = useState(false);
  const shown = exact || chosen === true;
  const box = useRef<HTMLPreElement>(null);
  const look = () => {
    const pre = box.current;
    // Less than a line from the end is the end.
    if (pre && pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 12) onSeen?.();
  };

  return (
    <div {...part("arguments")} data-long={(long && !open) || undefined}>
      {warned && <Warnings display={display} />}
      {tabled && <ArgTable args={args} schema={config.args_schema} display={display} cut={long} />}
      {long && onSeen && (
        <SeeAll
          id={`${id}-long`}
          seen={seen}
          open={open}
          onOpen={() => {
            setOpen(true);
            onSeen();
          }}
        />
      )}
      {tabled && (
        <div {...part("shown-foot")}>
          <p {...part("exact")}>
            {exact ? (
              <span {...part("label")}>{t("args.exact")}</span>
            ) : (
              <button type="button" {...part("link")} aria-expanded={shown} aria-controls={`${id}-exact`} onClick={() => setChosen(!shown)}>
                {t("args.exact")}
              </button>
            )}
          </p>
          <Size action={action} />
        </div>
      )}
      <pre
        ref={box}
        id={`${id}-exact`}
        hidden={!shown}
        {...part("shown")}
        dir="ltr"
        role="group"
        tabIndex={0}
        aria-label={t("shown.region")}
        aria-describedby={long && onSeen && !seen ? `${id}-long` : undefined}
        onScroll={long ? look : undefined}
      >
        <ShownText text={text} />
      </pre>
      {!tabled && <Size action={action} />}
    </div>
  );
}

/** Says that a long text has to be read to its end, and offers to show all of it at once. */
function SeeAll({ id, seen, open, onOpen }: { id: string; seen: boolean; open: boolean; onOpen: () => void }) {
  const { t, part } = useTexts();
  return (
    <div {...part("shown-more")}>
      {!seen && (
        <p id={id} {...part("caution")}>
          {t("shown.long")}
        </p>
      )}
      {!open && (
        <button type="button" {...part("link")} onClick={onOpen}>
          {t("shown.all")}
        </button>
      )}
    </div>
  );
}

/** Its size, and the digest that names it to the byte. */
function Size({ action: { args_digest: digest, display } }: { action: Action }) {
  const { t, language, part } = useTexts();
  if (!display) return null;
  return (
    <details {...part("shown-size")}>
      <summary title={digest}>
        {t("shown.size", { n: display.bytes.toLocaleString(language) })}
        {digest && <> · SHA-256 {digest.slice(0, 12)}…</>}
      </summary>
      <dl>
        {digest && (
          <>
            <dt>{t("shown.hashArgs")}</dt>
            <dd>
              <code>{digest}</code>
            </dd>
          </>
        )}
        <dt>{t("shown.hashText")}</dt>
        <dd>
          <code>{display.digest}</code>
        </dd>
      </dl>
    </details>
  );
}

/** The exact text, with its escapes marked. */
export function ShownText({ text }: { text: string }) {
  const { part } = useTexts();
  const pieces = useMemo(() => shownParts(text), [text]);
  return pieces.map((piece, i) =>
    piece.kind === "plain" ? (
      piece.text
    ) : piece.kind === "hidden" ? (
      <mark key={i} {...part("hidden")}>
        {piece.text}
      </mark>
    ) : (
      <span key={i} {...part("shown-break")}>
        {piece.text}
      </span>
    ),
  );
}

function Warnings({ display }: { display: Display }) {
  const { t, part } = useTexts();
  const { warnings } = display;
  return (
    <div {...part("shown-warning")}>
      <Glyph name="warning" />
      <div>
        <p>
          {t("shown.warning")}{totals(warnings).map(([kind, n]) => kindText(kind, n, t)).join(t("text.comma"))}
        </p>
        <details>
          <summary>{t("shown.places")}</summary>
          <ul>
            {warnings.map(({ kind, pointer, count }) => (
              <li key={`${kind} ${pointer}`}>
                {pointer === "" ? t("shown.elsewhere") : <code>{pointer}</code>}
                {t("text.paren", { text: kindText(kind, count, t) })}
              </li>
            ))}
          </ul>
        </details>
      </div>
    </div>
  );
}

function kindText(kind: string, n: number, t: Tell): string {
  // A newer server may warn of others.
  return isKnown(kind) ? t(`shown.${kind}`, { n }) : kind + t("text.colon") + n;
}

const KNOWN = ["invisible", "bidirectional", "control", "confusable", "whitespace", "not_normalized"] as const;

const isKnown = (kind: string): kind is (typeof KNOWN)[number] => KNOWN.some((one) => one === kind);
