/**
 * The streamed output of a job, as it arrives.
 */
import { Copy } from "../ui/Text.tsx"
import { type Chunk, streamedText } from "./JobFeed.ts"

/** The maximum number of chunks that are drawn. */
const SHOWN = 500

/** Shows streamed text as one text, and other chunks as a list. */
export const Chunks = ({ chunks }: { readonly chunks: ReadonlyArray<Chunk> }) => {
  const text = streamedText(chunks)
  if (text !== undefined) {
    return (
      <div className="code">
        <pre tabIndex={0} className="wraps" aria-label="Streamed output"><code>{text}</code></pre>
        <Copy text={text} label="Copy the streamed output" />
      </div>
    )
  }
  return (
    <>
      {chunks.length > SHOWN ? <p className="muted">The newest {SHOWN} of {chunks.length} chunks.</p> : null}
      <ol className="chunks" aria-label="Chunks">
        {chunks.slice(-SHOWN).map(({ attempt, number, output }) => (
          <li key={`${attempt}-${number}`}>
            <span className="muted">{number}</span>
            <code>{typeof output === "string" ? output : JSON.stringify(output)}</code>
          </li>
        ))}
      </ol>
    </>
  )
}
