import { useI18n } from "../../i18n/index.js";
import { BULK_MOST, type BulkChoice } from "../../lib/bulk.js";

interface Props {
  chosen: number;
  onBulk: (choice: BulkChoice) => void;
  onClear: () => void;
}

/** The actions on the selected rows. */
export function BulkBar({ chosen, onBulk, onClear }: Props) {
  const { t } = useI18n();
  if (chosen === 0) return null;
  const tooMany = chosen > BULK_MOST;
  return (
    <div className="inbox-bulk" role="group" aria-label={t("bulk.bar")}>
      <span className="grow" data-many={tooMany || undefined}>{tooMany ? t("bulk.tooMany", { n: chosen, most: BULK_MOST }) : t("bulk.chosen", { n: chosen })}</span>
      <button type="button" className="button small quiet" onClick={onClear}>
        {t("bulk.clear")}
      </button>
      <button type="button" className="button small danger" disabled={tooMany} onClick={() => onBulk("reject")}>
        {t("bulk.reject")}
      </button>
      <button type="button" className="button small" disabled={tooMany} onClick={() => onBulk("approve")}>
        {t("bulk.approve")}
      </button>
    </div>
  );
}
