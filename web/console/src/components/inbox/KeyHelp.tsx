import { useEffect, useId, useRef } from "react";
import { useI18n } from "../../i18n/index.js";
import { Icon } from "../Icon.js";

const KEYS = [
  ["j", "next"],
  ["k", "previous"],
  ["a", "approve"],
  ["e", "edit"],
  ["r", "reject"],
  ["x", "choose"],
  ["l", "later"],
  ["/", "search"],
  ["Esc", "back"],
  ["?", "help"],
] as const;

interface Props {
  /** Whether single letters do something. */
  on: boolean;
  onSwitch: (on: boolean) => void;
  onClose: () => void;
}

/** Which keys do what. Single letters can be switched off: who speaks to the computer types them by accident. */
export function KeyHelp({ on, onSwitch, onClose }: Props) {
  const { t } = useI18n();
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      className="dialog key-help"
      aria-labelledby={id}
      onClose={onClose}
      onClick={(e) => e.target === dialog.current && onClose()}
    >
      <div className="dialog-body">
        <div className="dialog-head">
          <h2 id={id}>{t("keys.heading")}</h2>
          <button type="button" className="icon-button" onClick={onClose} aria-label={t("app.close")}>
            <Icon name="close" />
          </button>
        </div>
        <dl>
          {KEYS.map(([key, what]) => (
            <div key={key}>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{t(`keys.${what}`)}</dd>
            </div>
          ))}
        </dl>
        <label className="key-switch">
          <input type="checkbox" checked={on} onChange={(e) => onSwitch(e.target.checked)} />
          {t("keys.on")}
        </label>
      </div>
    </dialog>
  );
}

export type KeyName = (typeof KEYS)[number][1];

/** What a key does, unless something is being typed. */
export function keyName(key: string): KeyName | undefined {
  return KEYS.find(([one]) => one === (key === "Escape" ? "Esc" : key.toLowerCase()))?.[1];
}
