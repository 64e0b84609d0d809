/**
 * Times, ids and texts to copy.
 */
import { type ReactNode, useEffect, useRef, useState } from "react"
import { absolute, duration, relative, shortId } from "../format/Format.ts"
import { useNow } from "../live/Clock.ts"

/** A time as an age, with the absolute time on hover. */
export const Time = ({ at }: { readonly at: number }) => {
  const now = useNow()
  return <time dateTime={new Date(at).toISOString()} title={absolute(at)}>{relative(at, now)}</time>
}

/** The growing duration of something that has not ended. */
export const Growing = ({ since }: { readonly since: number }) => {
  const now = useNow()
  return <span title={`since ${absolute(since)}`}>{duration(Math.floor(Math.max(0, now - since) / 1_000) * 1_000)}</span>
}

const COPIED_MILLIS = 1_500

/** Copies a text. Without https, browsers give pages no access to the clipboard, so the text is selected instead. */
export const Copy = (
  { children, label, text }: { readonly text: string; readonly label: string; readonly children?: string }
) => {
  const [isCopied, setCopied] = useState(false)
  const timer = useRef(0)
  useEffect(() => () => window.clearTimeout(timer.current), [])
  const copy = async () => {
    if (await copyText(text)) {
      setCopied(true)
      window.clearTimeout(timer.current)
      timer.current = window.setTimeout(() => setCopied(false), COPIED_MILLIS)
    }
  }
  return (
    <button type="button" className="copy" aria-label={label} title={label} onClick={() => void copy()}>
      {children === undefined ? null : <span>{children}</span>}
      <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
        <path d={isCopied ? "M3 8.5 6.5 12 13 4.5" : "M5.5 5.5v-3h8v8h-3m-8-5h8v8h-8Z"} />
      </svg>
      <span className="sr" role="status">{isCopied ? "Copied" : ""}</span>
    </button>
  )
}

const copyText = async (text: string): Promise<boolean> => {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    const area = document.createElement("textarea")
    area.value = text
    area.className = "sr"
    document.body.append(area)
    area.select()
    // The only way on http pages from other machines, which have no `navigator.clipboard`.
    const done = document.execCommand("copy") // oxlint-disable-line typescript/no-deprecated -- there is no other way
    area.remove()
    return done
  }
}

/** An id that copies on click. */
export const Id = ({ id, short = false }: { readonly id: string; readonly short?: boolean }) => (
  <Copy text={id} label={`Copy ${id}`}>{short ? shortId(id) : id}</Copy>
)

/** Code with a button that copies it. */
export const Code = ({ children, label }: { readonly children: string; readonly label: string }) => (
  <div className="code">
    <pre tabIndex={0} aria-label={label}><code>{children}</code></pre>
    <Copy text={children} label={`Copy ${label}`} />
  </div>
)

/** The longest JSON that is shown. Browsers become slow with megabytes of text in one element. */
const SHOWN_CHARACTERS = 200_000

const jsonText = (value: unknown): string => typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "nothing"

/** A JSON value, indented. `shown`: a shorter value that is drawn in its place; Copy takes `value`. */
export const JsonView = ({ label, shown, value }: {
  readonly value: unknown
  readonly shown?: unknown
  readonly label: string
}) => {
  const text = jsonText(shown ?? value)
  const isCut = text.length > SHOWN_CHARACTERS
  return (
    <>
      <div className="code">
        <pre tabIndex={0} aria-label={label}><code>{isCut ? text.slice(0, SHOWN_CHARACTERS) : text}</code></pre>
        <Copy text={shown === undefined ? text : jsonText(value)} label={`Copy ${label}`} />
      </div>
      {isCut
        ? (
          <p className="muted">
            The first {SHOWN_CHARACTERS.toLocaleString("en")} of {text.length.toLocaleString("en")} characters. Copy takes all.
          </p>
        )
        : null}
    </>
  )
}

/** Why something failed. A long reason scrolls, also with the keyboard. */
export const Reason = ({ children }: { readonly children: ReactNode }) => <p className="reason" tabIndex={0}>{children}</p>
