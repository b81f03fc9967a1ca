/**
 * The model's text as Markdown. The library never makes HTML of HTML in the text, and drops links that are
 * not http(s), mailto and the like. Images are shown as links: an address chosen by a model must not be
 * fetched because someone looked at it. Footnotes are a list below the text, with neither links nor ids: in the
 * console's address a hash means a page, and other messages have the same ids. Its heading would be English everywhere.
 */
import { memo } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";
import { isDeep } from "../../lib/deep.js";

const components: Components = {
  a: ({ node, href, children }) => {
    if (node?.properties.dataFootnoteBackref !== undefined) return null;
    if (node?.properties.dataFootnoteRef !== undefined) return children;
    return (
      <a href={href} target="_blank" rel="noopener noreferrer nofollow">
        {children}
      </a>
    );
  },
  // In Markdown only what belongs to footnotes has an id.
  h2: ({ id, children }) => id === undefined && <h2>{children}</h2>,
  li: ({ node: _, id: __, ...rest }) => <li {...rest} />,
  img: ({ src, alt }) => (
    <a href={typeof src === "string" ? src : undefined} target="_blank" rel="noopener noreferrer nofollow">
      {alt || String(src ?? "")}
    </a>
  ),
  table: ({ children }) => (
    <div className="table-scroll" tabIndex={0}>
      <table>{children}</table>
    </div>
  ),
  pre: ({ children }) => <pre tabIndex={0}>{children}</pre>,
};
const plugins = [remarkGfm];

export default memo(function Rendered({ text }: { text: string }) {
  if (isDeep(text)) return <p className="unrendered">{text}</p>;
  return (
    <ReactMarkdown remarkPlugins={plugins} components={components}>
      {text}
    </ReactMarkdown>
  );
});
