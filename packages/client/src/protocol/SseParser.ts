/**
 * Server-Sent Events as they come over a connection, in parts that end anywhere (HTML standard, 9.2.6). Pure.
 *
 * ```
 *   parts --> lines (LF, CRLF, CR) --> fields --empty line--> an event
 * ```
 *
 * What has no empty line after it is no event: a connection that is cut in the middle of one leaves nothing behind.
 */

/** One event. */
export interface SseEvent {
  /** Empty where it has none. */
  readonly id: string
  /** `message` where it has no name. */
  readonly event: string
  readonly data: string
}

/** Takes the text of one connection, part by part. */
export class SseParser {
  /** What came of a line whose end has not come. Kept in parts: joining them each time would cost the square of a long line. */
  #line: Array<string> = []
  /** The last part ended with CR: an LF at the beginning of the next one belongs to it. */
  #afterReturn = false
  #id = ""
  #event = ""
  #data: Array<string> = []

  /** The events that are complete with this part. */
  feed(part: string): ReadonlyArray<SseEvent> {
    const events: Array<SseEvent> = []
    let at = 0
    if (this.#afterReturn && part !== "") {
      this.#afterReturn = false
      if (part.startsWith("\n")) at = 1
    }
    const ends = /\r\n|\r|\n/g
    ends.lastIndex = at
    for (let end = ends.exec(part); end !== null; end = ends.exec(part)) {
      this.#line.push(part.slice(at, end.index))
      at = ends.lastIndex
      this.#afterReturn = end[0] === "\r" && at === part.length
      const line = this.#line.join("")
      this.#line = []
      const event = this.#feed(line)
      if (event !== undefined) events.push(event)
    }
    if (at < part.length) this.#line.push(part.slice(at))
    return events
  }

  #feed(line: string): SseEvent | undefined {
    if (line === "") return this.#dispatch()
    const colon = line.indexOf(":")
    // A comment: it shows that somebody is there, and nothing else.
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
