/**
 * Parses Server-Sent Events from chunks of text that may end anywhere (HTML standard, 9.2.6).
 *
 * ```
 *   chunks --> lines (LF, CRLF, CR) --> fields --empty line--> an event
 * ```
 *
 * An event is complete only with its empty line. When the connection is lost in the middle of an event, the parser drops the event.
 */

/** One event. */
export interface SseEvent {
  /** Empty when the event has no id. */
  readonly id: string
  /** `message` when the event has no name. */
  readonly event: string
  readonly data: string
}

/** The parser of one connection. */
export class SseParser {
  /**
   * The chunks of an incomplete line. They are joined only once, because joining them after each chunk would take quadratic time for a
   * long line.
   */
  #line: Array<string> = []
  /** Whether the last chunk ended with CR. If so, an LF at the start of the next chunk belongs to the same line break. */
  #afterReturn = false
  #id = ""
  #event = ""
  #data: Array<string> = []

  /** Returns the events that this chunk completes. */
  feed(chunk: string): ReadonlyArray<SseEvent> {
    const events: Array<SseEvent> = []
    let at = 0
    if (this.#afterReturn && chunk !== "") {
      this.#afterReturn = false
      if (chunk.startsWith("\n")) at = 1
    }
    const lineBreak = /\r\n|\r|\n/g
    lineBreak.lastIndex = at
    for (let end = lineBreak.exec(chunk); end !== null; end = lineBreak.exec(chunk)) {
      this.#line.push(chunk.slice(at, end.index))
      at = lineBreak.lastIndex
      this.#afterReturn = end[0] === "\r" && at === chunk.length
      const line = this.#line.join("")
      this.#line = []
      const event = this.#parseLine(line)
      if (event !== undefined) events.push(event)
    }
    if (at < chunk.length) this.#line.push(chunk.slice(at))
    return events
  }

  #parseLine(line: string): SseEvent | undefined {
    if (line === "") return this.#dispatch()
    const colon = line.indexOf(":")
    // A comment. The server sends them as heartbeats.
    if (colon === 0) return undefined
    const name = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? "" : line.slice(line.startsWith(" ", colon + 1) ? colon + 2 : colon + 1)
    if (name === "data") this.#data.push(value)
    else if (name === "event") this.#event = value
    else if (name === "id" && !value.includes("\0")) this.#id = value
    return undefined
  }

  #dispatch(): SseEvent | undefined {
    const event = { id: this.#id, event: this.#event === "" ? "message" : this.#event, data: this.#data.join("\n") }
    const isEmpty = this.#data.length === 0
    this.#event = ""
    this.#data = []
    return isEmpty ? undefined : event
  }
}
