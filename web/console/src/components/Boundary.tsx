/**
 * A part that cannot be rendered is replaced by a plain message; the rest of the page stays.
 * React has no hook for this.
 */
import { Component, type ErrorInfo, type ReactNode } from "react";
import { useI18n } from "../i18n/index.js";
import { Icon } from "./Icon.js";

interface Props {
  children: ReactNode;
}

export class Boundary extends Component<Props, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override componentDidCatch(error: Error, { componentStack }: ErrorInfo) {
    console.error(error, componentStack);
  }

  override render() {
    return this.state.failed ? <Failure /> : this.props.children;
  }
}

function Failure() {
  const { t } = useI18n();
  return (
    <div className="notice failure" role="alert">
      <Icon name="warning" />
      <div>
        <p>{t("failure.text")}</p>
        <p className="muted">{t("failure.rest")}</p>
        <button type="button" className="button small" onClick={() => location.reload()}>
          {t("failure.reload")}
        </button>
      </div>
    </div>
  );
}
