/**
 * A Server-Sent Events client that can disconnect at any point. It implements the parsing rules of the standard.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { NoAnswer, UnexpectedAnswer } from "./WireClient.ts"

/** An event as received. */
export interface SentEvent {
  readonly id: string
  readonly event: string
  readonly data: string
}

/** An open event stream. */
export interface EventReader {
  readonly status: number
  readonly headers: Headers
  /** The next event; undefined at the end of the response. Fails after ten seconds without an event. */
  readonly next: Effect.Effect<SentEvent | undefined, NoAnswer | UnexpectedAnswer>
  /** All events up to the end of the response. */
  readonly rest: Effect.Effect<ReadonlyArray<SentEvent>, NoAnswer | UnexpectedAnswer>
  /** The number of comments received so far. */
  readonly comments: () => number
  /** Disconnects. */
  readonly cut: Effect.Effect<void>
}

const decodeData = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Json))

/** The data of an event. */
export const dataOf = (event: SentEvent | undefined) => Effect.orDie(decodeData(event?.data))

/** Opens an event stream. The client disconnects when the scope closes, or after `cutAfter` characters, which may be inside an event. */
export const open = Effect.fnUntraced(function*(
  url: string,
  headers: Readonly<Record<string, string>>,
  cutAfter = Infinity
): Effect.fn.Return<EventReader, NoAnswer, Scope.Scope> {
  const controller = new AbortController()
  yield* Effect.addFinalizer(() => Effect.sync(() => controller.abort()))
  const response = yield* Effect.tryPromise({
    try: () => fetch(url, { headers, signal: controller.signal }),
    catch: (cause) => new NoAnswer({ cause })
  })
  const body = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  const events: Array<SentEvent> = []
  let comments = 0
  let text = ""
  let ended = body === undefined
  let left = cutAfter

  const feed = (chunk: string) => {
    text += chunk
    while (true) {
      const end = text.indexOf("\n\n")
      if (end === -1) return
      const fields = { id: "", event: "", data: new Array<string>() }
      for (const line of text.slice(0, end).split("\n")) {
        if (line.startsWith(":")) comments += 1
        const [, name, value = ""] = /^(\w+):? ?(.*)$/s.exec(line) ?? []
        if (name === "data") fields.data.push(value)
        else if (name === "id" || name === "event") fields[name] = value
      }
      text = text.slice(end + 2)
      if (fields.data.length > 0) events.push({ ...fields, data: fields.data.join("\n") })
    }
  }

  const next: EventReader["next"] = Effect.gen(function*() {
    while (events.length === 0 && !ended) {
      const read = yield* Effect.tryPromise({
        try: () => body?.read() ?? Promise.resolve({ done: true as const, value: undefined }),
        catch: (cause) => new NoAnswer({ cause })
      })
      if (read.done) ended = true
      else {
        feed(read.value.slice(0, left))
        left -= read.value.length
        if (left <= 0) {
          ended = true
          controller.abort()
        }
      }
    }
    return events.shift()
  }).pipe(
    Effect.timeoutOrElse({
      duration: 10_000,
      orElse: () => Effect.fail(new UnexpectedAnswer({ message: "no event for ten seconds" }))
    })
  )

  return {
    status: response.status,
    headers: response.headers,
    next,
    rest: Effect.gen(function*() {
      const all: Array<SentEvent> = []
      while (true) {
        const event = yield* next
        if (event === undefined) return all
        all.push(event)
      }
    }),
    comments: () => comments,
    cut: Effect.sync(() => controller.abort())
  }
})
