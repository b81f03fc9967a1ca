import { useEffect, useId, useRef, useState } from "react";
import { useI18n } from "../../i18n/index.js";
import { exported } from "../../lib/audit.js";
import { useRequest } from "../../lib/useRequest.js";
import { http } from "../../state/connection.js";
import { Icon } from "../Icon.js";
import { Refused } from "../Refusal.js";

/** Save what this person may read as a file. */
export function Export() {
  const { t } = useI18n();
  const { busy, error, run } = useRequest();
  const [read, setRead] = useState<number>();
  const [done, setDone] = useState<number>();
  const aborting = useRef<AbortController>(undefined);
  const id = useId();
  useEffect(() => () => aborting.current?.abort(), []);

  const save = async () => {
    const aborted = new AbortController();
    aborting.current = aborted;
    setDone(undefined);
    setRead(0);
    await run(async () => {
      const parts: string[] = [];
      let records = 0;
      try {
        for await (const part of exported((cursor, limit) => http.auditLines({ cursor, limit }, aborted.signal))) {
          parts.push(part.lines);
          setRead((records += part.records));
        }
      } catch (e) {
        if (aborted.signal.aborted) return;
        throw e;
      }
      download(new Blob(parts, { type: "application/jsonl" }), "countersign-audit.jsonl");
      setDone(records);
    });
    setRead(undefined);
  };

  return (
    <section className="audit-tool" aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>{t("audit.exportHeading")}</h2>
      <p className="muted">{t("audit.exportHint")}</p>
      <div className="audit-actions">
        <button type="button" className="button" disabled={busy} onClick={() => void save()}>
          <Icon name="down" />
          {t("audit.export")}
        </button>
        {busy && (
          <button type="button" className="button quiet" onClick={() => aborting.current?.abort()}>
            {t("audit.stop")}
          </button>
        )}
      </div>
      <p role="status" className="muted">
        {read !== undefined ? t("audit.exporting", { n: read }) : done !== undefined ? t("audit.exported", { n: done }) : ""}
      </p>
      <Refused error={error} />
    </section>
  );
}

function download(file: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  // The browser has begun the download by then; revoked earlier, the address would have no data.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
