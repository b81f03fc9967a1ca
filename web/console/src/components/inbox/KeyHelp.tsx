import { useI18n } from "../../i18n/index.js";
import { keysOn, switchKeys } from "../../state/keys.js";
import { useStore } from "../../state/store.js";
import { Dialog } from "../Dialog.js";

const KEYS = [
  ["J", "next"],
  ["K", "previous"],
  ["A", "approve"],
  ["E", "edit"],
  ["R", "reject"],
  ["X", "choose"],
  ["L", "later"],
  ["/", "search"],
  ["Esc", "back"],
  ["?", "help"],
] as const;

/** The meaning of the keys, and the switch of the single letters. */
export function KeyHelp({ onClose }: { onClose: () => void }) {
  const { t } = useI18n();
  return (
    <Dialog heading={t("keys.heading")} className="key-help" lightDismiss onClose={onClose}>
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
        <input type="checkbox" checked={useStore(keysOn)} onChange={(e) => switchKeys(e.target.checked)} />
        {t("keys.on")}
      </label>
    </Dialog>
  );
}

export type KeyName = (typeof KEYS)[number][1];

/** What a key does, unless something is being typed. */
export function keyName(key: string): KeyName | undefined {
  return KEYS.find(([one]) => one === (key === "Escape" ? "Esc" : key.toUpperCase()))?.[1];
}
