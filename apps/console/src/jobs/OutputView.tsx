/**
 * The output of a job: its pictures, audio, video, tables and Markdown as what they are, and all of it as JSON.
 */
import { lazy, Suspense, useMemo } from "react"
import { JsonView } from "../ui/Text.tsx"
import {
  type Cell,
  describe,
  isMedia,
  type MediaPart,
  type OutputPart,
  partsOf,
  type TablePart,
  withoutMedia
} from "./OutputParts.ts"

/** The most rows that are drawn. */
const SHOWN_ROWS = 200

const Markdown = lazy(() => import("./MarkdownView.tsx"))

const labelOf = (path: string): string => path === "" ? "the output" : path

const Media = ({ part }: { readonly part: MediaPart }) => {
  const { kind, path, source } = part
  const label = labelOf(path)
  return (
    <figure className="medium">
      {kind === "image"
        ? <img src={source} alt={`Picture in ${label}`} />
        : kind === "audio"
        ? <audio controls src={source} aria-label={`Audio in ${label}`} />
        : <video controls src={source} aria-label={`Video in ${label}`} />}
      <figcaption className="muted">
        <code>{label}</code> {describe(part)}{" "}
        <a href={source} download={`${path === "" ? "output" : path}.${part.type.replace(/.*[/+]/, "")}`}>Download</a>
      </figcaption>
    </figure>
  )
}

const textOf = (cell: Cell | undefined): string => cell === undefined || cell === null ? "" : String(cell)

const Table = ({ part: { columns, path, rows } }: { readonly part: TablePart }) => (
  <>
    <div className="scrolls" tabIndex={0} role="region" aria-label={`Table in ${labelOf(path)}`}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column} scope="col" className={typeof rows[0]?.[column] === "number" ? "number" : undefined}>{column}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, SHOWN_ROWS).map((row, index) => (
            // The rows of an output never change.
            <tr key={index}>
              {columns.map((column) => (
                <td key={column} className={typeof row[column] === "number" ? "number" : undefined}>{textOf(row[column])}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
    {rows.length > SHOWN_ROWS ? <p className="muted">The first {SHOWN_ROWS} of {rows.length} rows.</p> : null}
  </>
)

const Part = ({ part }: { readonly part: OutputPart }) => {
  switch (part.kind) {
    case "table":
      return <Table part={part} />
    case "markdown":
      return (
        <Suspense fallback={<p className="muted">Loading</p>}>
          <Markdown text={part.text} label={`Markdown in ${labelOf(part.path)}`} />
        </Suspense>
      )
    default:
      return <Media part={part} />
  }
}

/** Shows the parts first. The JSON has a short text in place of each medium; its copy has everything. */
export const OutputView = ({ output }: { readonly output: unknown }) => {
  const parts = useMemo(() => partsOf(output), [output])
  // Without media, the JSON is the output itself, which is then written once.
  const shown = useMemo(() => parts.some(isMedia) ? withoutMedia(output) : undefined, [output, parts])
  return (
    <>
      {parts.map((part) => <Part key={`${part.kind} ${part.path}`} part={part} />)}
      <JsonView value={output} shown={shown} label="the output" />
    </>
  )
}
