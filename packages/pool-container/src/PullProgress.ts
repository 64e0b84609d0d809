/**
 * Reads the progress of a pull, which the engine sends as lines of JSON.
 */
import type { ImagePullProgress } from "@stint/contract/ImagePull"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

const decodeLine = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({
  status: Schema.optionalKey(Schema.String),
  id: Schema.optionalKey(Schema.String),
  error: Schema.optionalKey(Schema.String),
  progressDetail: Schema.optionalKey(Schema.Struct({
    current: Schema.optionalKey(Schema.Finite),
    total: Schema.optionalKey(Schema.Finite)
  }))
})))

/** An engine may report a size that it does not know as -1. */
const count = (bytes: number): number => Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.round(bytes)))

export interface PullProgress {
  /** Adds a chunk of the response, cut at any byte. */
  readonly push: (chunk: Buffer) => void
  /** The error in a line; undefined if there was none. */
  readonly error: () => string | undefined
  /** How far the pull is. */
  readonly current: () => ImagePullProgress
}

export const make = (): PullProgress => {
  const decoder = new TextDecoder()
  const layers = new Map<string, { current: number; total: number; isDone: boolean }>()
  let open = ""
  let error: string | undefined

  const add = (line: string) => {
    const decoded = Option.getOrUndefined(decodeLine(line))
    if (decoded === undefined) return
    error ??= decoded.error
    const { id, progressDetail, status = "" } = decoded
    // A line without progress that names an id may be about the tag: "Pulling from library/node", id "22".
    if (id === undefined || status.startsWith("Pulling from")) return
    const layer = layers.get(id) ?? { current: 0, total: 0, isDone: false }
    layers.set(id, layer)
    // The progress of "Extracting" would count the layer twice.
    if (status === "Downloading") {
      layer.current = count(progressDetail?.current ?? layer.current)
      layer.total = count(progressDetail?.total ?? layer.total)
    }
    if (/^(?:Pull complete|Already exists|Download complete)/.test(status)) {
      layer.isDone = true
      layer.current = layer.total
    }
  }

  return {
    push: (chunk) => {
      const lines = (open + decoder.decode(chunk, { stream: true })).split("\n")
      open = lines.pop() ?? ""
      for (const line of lines) add(line)
      // The last line may have no line break.
      if (open.endsWith("}")) add(open)
    },
    error: () => error,
    current: () => {
      const all = [...layers.values()]
      return {
        layers: all.length,
        doneLayers: all.filter(({ isDone }) => isDone).length,
        bytes: count(all.reduce((sum, layer) => sum + layer.total, 0)),
        doneBytes: count(all.reduce((sum, layer) => sum + layer.current, 0))
      }
    }
  }
}
