/** The model's text. Until the Markdown renderer is loaded, and if that fails, it is shown as it was written. */
import { Component, lazy, memo, Suspense, type ReactNode } from "react";
import { showDirectionMarks } from "@countersign/react";
import { late } from "../../lib/late.js";

const Rendered = lazy(late(() => import("./Rendered.js")));

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const shown = showDirectionMarks(text);
  const plain = <p className="unrendered">{shown}</p>;
  return (
    <div className="markdown">
      <Otherwise plain={plain}>
        <Suspense fallback={plain}>
          <Rendered text={shown} />
        </Suspense>
      </Otherwise>
    </div>
  );
});

class Otherwise extends Component<{ plain: ReactNode; children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override render() {
    return this.state.failed ? this.props.plain : this.props.children;
  }
}
