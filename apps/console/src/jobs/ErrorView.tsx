/**
 * The error of a job: what went wrong, with the traceback below.
 */
import { Copy } from "../ui/Text.tsx"
import { errorParts } from "./JobError.ts"

/** The error. */
export const ErrorView = ({ error, title }: { readonly error: string; readonly title: string }) => {
  const { message, traceback, type } = errorParts(error)
  return (
    <section className="error" aria-label={title}>
      <p className="error-head">
        <strong>{type ?? title}</strong>
        <Copy text={error} label="Copy the error" />
      </p>
      <p className="error-message">{message}</p>
      {traceback === undefined ? null : <pre tabIndex={0} aria-label="Traceback"><code>{traceback.trim()}</code></pre>}
    </section>
  )
}
