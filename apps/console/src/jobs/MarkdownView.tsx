/**
 * Markdown of an output. HTML in it is shown as text, and pictures of other hosts are not loaded.
 */
import Markdown from "markdown-to-jsx/react"

const Picture = ({ alt, src }: { readonly alt?: string; readonly src?: string }) =>
  src?.startsWith("data:image/") === true ? <img src={src} alt={alt ?? ""} /> : <span className="muted">{alt} ({src})</span>

/** A link opens in a new window, which learns nothing about this one. */
const Anchor = ({ children, href }: { readonly children?: React.ReactNode; readonly href?: string }) => (
  <a href={href} target="_blank" rel="noreferrer noopener">{children}</a>
)

const MarkdownView = ({ label, text }: { readonly text: string; readonly label: string }) => (
  <article className="markdown" aria-label={label}>
    <Markdown options={{ disableParsingRawHTML: true, forceBlock: true, overrides: { a: Anchor, img: Picture } }}>
      {text}
    </Markdown>
  </article>
)

export default MarkdownView
