import { useId } from "react";
import type { WaysProps } from "./Composer.js";
import { Icon } from "./Icon.js";

/** The ways to send a message while something is under way, each with its result. */
export function Ways({ ways, disabled, onSend }: WaysProps) {
  const id = useId();
  return (
    <ul className="ways">
      {ways.map(({ onPending, label, effect }, i) => (
        <li key={onPending} className="way">
          <button
            type={i === 0 ? "submit" : "button"}
            className={onPending === "reject" ? "button small danger" : "button small primary"}
            disabled={disabled}
            aria-describedby={`${id}-${onPending}`}
            onClick={i === 0 ? undefined : () => onSend(onPending)}
          >
            <Icon name={onPending === "reject" ? "cross" : "send"} />
            {label}
          </button>
          <span id={`${id}-${onPending}`} className="hint">
            {effect}
          </span>
        </li>
      ))}
    </ul>
  );
}
