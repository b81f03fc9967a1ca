import { useMemo, useState } from "react";
import type { ImageSource } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { shownImage } from "../../lib/shownImage.js";
import { Icon } from "../Icon.js";

/** An image of a message. One at an address is not loaded: its host would learn who reads the message, and when. */
export function MessageImage({ source, n }: { source: ImageSource; n: number }) {
  const { t } = useI18n();
  const [large, setLarge] = useState(false);
  const shown = useMemo(() => shownImage(source), [source]);
  switch (shown.kind) {
    case "here":
      return (
        <button
          type="button"
          className="said-image"
          aria-expanded={large}
          title={t(large ? "image.smaller" : "image.larger")}
          onClick={() => setLarge(!large)}
        >
          <img src={shown.src} alt={t("image.alt", { n })} loading="lazy" decoding="async" />
        </button>
      );
    case "elsewhere":
      return (
        <a className="image-link" href={shown.url} target="_blank" rel="noopener noreferrer" title={shown.url}>
          <Icon name="outside" />
          <span>{t("image.at", { host: shown.host })}</span>
        </a>
      );
    case "unknown":
      return <p className="notice">{t("image.unknown")}</p>;
  }
}
