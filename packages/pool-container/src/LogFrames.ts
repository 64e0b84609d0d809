/**
 * Separates the two streams of a container's output, which the engine sends as frames:
 *
 * ```
 *   [stream, 0, 0, 0, length as 4 bytes] [payload of this length]     stream: 1 stdout, 2 stderr
 * ```
 */
import type { WorkerLine } from "@stint/pool/WorkerLog"

/** A part of one stream. */
export interface OutputPart {
  readonly stream: WorkerLine["stream"]
  readonly bytes: Buffer
}

const HEADER_BYTES = 8

/**
 * Returns a function that takes chunks, cut at any byte, and returns the parts in them. It returns
 * a payload as it arrives, because a frame may be large. Throws for bytes that are not frames, for
 * example from a container with a terminal.
 */
export const demultiplexer = (): (chunk: Buffer) => ReadonlyArray<OutputPart> => {
  let header: Buffer = Buffer.alloc(0)
  let stream: WorkerLine["stream"] = "stdout"
  let missing = 0
  return (chunk) => {
    const parts: Array<OutputPart> = []
    for (let at = 0; at < chunk.length;) {
      if (missing === 0) {
        const end = at + HEADER_BYTES - header.length
        header = Buffer.concat([header, chunk.subarray(at, end)])
        at = Math.min(end, chunk.length)
        if (header.length < HEADER_BYTES) break
        const kind = header.readUInt8(0)
        if (kind > 3 || header.readUIntBE(1, 3) !== 0) throw new Error("the output of the container is not in frames")
        stream = kind < 2 ? "stdout" : "stderr"
        missing = header.readUInt32BE(4)
        header = Buffer.alloc(0)
      } else {
        const bytes = chunk.subarray(at, at + missing)
        parts.push({ stream, bytes })
        missing -= bytes.length
        at += bytes.length
      }
    }
    return parts
  }
}
