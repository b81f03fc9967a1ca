/**
 * Which MCP server asks in the middle of a call, its message, set apart from the page's own words, and the address it
 * wants people to open.
 */
import type { ApprovalView } from "@countersign/client";
import type { Address, Elicitation } from "../forms/elicitation.js";
import { useTexts } from "../labels.js";
import { Visible } from "../Visible.js";
import { visibleText } from "../visibleText.js";
import { Arguments } from "./Arguments.js";
import { Glyph } from "./Glyph.js";

export interface AskedProps {
  approval: ApprovalView;
  asked: Elicitation;
}

export function Asked({ approval, asked }: AskedProps) {
  const { t, part } = useTexts();
  const action = approval.actions[0];
  return (
    <>
      <div {...part("server-says")}>
        <p {...part("label")}>
          <Glyph name="comment" />
          {t("elicit.says", { server: visibleText(asked.from) })}
        </p>
        <p {...part("server-words")} dir="auto">
          <Visible text={asked.message} />
        </p>
      </div>
      {asked.address && <AddressBox address={asked.address} />}
      {/* What could deceive the eye is looked at as the server writes it too, with its warnings. */}
      {action && (action.display?.warnings.length ?? 0) > 0 && <Arguments action={action} />}
    </>
  );
}

/** The whole address as text, and the host to which it really leads. Only a person opens it. */
function AddressBox({ address: { url, host, href } }: { address: Address }) {
  const { t, part } = useTexts();
  return (
    <div {...part("address")}>
      <p {...part("label")}>{t("elicit.address")}</p>
      <p {...part("address-text")} dir="ltr">
        <Visible text={url} />
      </p>
      <p {...part("address-foot")}>
        {host !== "" && (
          <span {...part("fact")}>
            {t("elicit.host")}
            {t("text.colon")}
            <strong>
              <Visible text={host} />
            </strong>
          </span>
        )}
        {href === undefined ? (
          <span {...part("caution")}>{t("elicit.noLink")}</span>
        ) : (
          <a {...part("open")} href={href} target="_blank" rel="noopener noreferrer">
            {t("elicit.open")}
            <Glyph name="outside" />
            <span {...part("unseen")}>{t("text.paren", { text: t("elicit.newTab") })}</span>
          </a>
        )}
      </p>
    </div>
  );
}
