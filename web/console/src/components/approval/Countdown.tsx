import { useEffect, useRef } from "react";
import { useI18n } from "../../i18n/index.js";
import { announce } from "../../lib/announce.js";
import { clockText } from "../../lib/clock.js";
import { useNow } from "../../lib/useNow.js";
import { Icon } from "../Icon.js";

interface Props {
  expiresAt: string;
  /** The total time, which gives the bar its scale. */
  totalSeconds?: number | undefined;
  /** Only the time, for lists. */
  compact?: boolean;
  /** What happens then. */
  after?: string;
  /** What it is about, for the spoken warnings. */
  subject?: string;
}

/** When to announce the remaining time, in seconds. Every second would drown everything else. */
const SPOKEN = [300, 60, 20];

export function Countdown({ expiresAt, totalSeconds, compact, after, subject }: Props) {
  const { t, language } = useI18n();
  const left = Date.parse(expiresAt) - useNow(500);
  useSpokenWarnings(left, subject);
  if (Number.isNaN(left)) return null;

  const text = left <= 0 ? t("time.up") : t("time.left", { time: clockText(left, language) });
  const share = totalSeconds ? Math.min(1, Math.max(0, left / (totalSeconds * 1000))) : undefined;
  const urgent = left <= 20_000 || (share !== undefined && share < 0.2);
  if (compact) {
    return (
      <span className="countdown-text" data-urgent={urgent || undefined}>
        <Icon name="clock" />
        {text}
      </span>
    );
  }
  return (
    <div className="countdown" data-urgent={urgent || undefined}>
      <div className="countdown-line">
        <span className="countdown-text" role="timer" aria-live="off">
          <Icon name="clock" />
          {text}
        </span>
        {after && <span className="hint">{after}</span>}
      </div>
      {share !== undefined && (
        <div className="countdown-track" aria-hidden="true">
          <div className="countdown-bar" style={{ transform: `scaleX(${share})` }} />
        </div>
      )}
    </div>
  );
}

function useSpokenWarnings(left: number, subject: string | undefined): void {
  const { t, language } = useI18n();
  const before = useRef(left);
  useEffect(() => {
    const crossed = SPOKEN.find((s) => before.current > s * 1000 && left <= s * 1000 && left > 0);
    before.current = left;
    if (crossed !== undefined && subject) announce(t("time.announce", { time: clockText(left, language), tool: subject }));
  }, [left, t, language, subject]);
}
