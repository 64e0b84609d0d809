/**
 * Runs programs with `fetch` and timers, in Node, Deno, Bun, edge workers and browsers.
 *
 * An AbortSignal aborts the current step, and with it the program.
 */
import {
  type Call,
  type Closed,
  type Events,
  type HttpResponse,
  type NoResponse,
  type Opened,
  type OpenStream,
  type Pause,
  type PauseEnded,
  type Program,
  unexpectedReply
} from "./protocol/DriverProtocol.ts"
import { SseParser } from "./protocol/SseParser.ts"

/** The type of the global `fetch`. */
export type Fetch = typeof globalThis.fetch

/** Aborts a step when the caller's signal aborts or the timeout expires. */
class RequestDeadline {
  readonly controller: AbortController
  timedOut = false
  readonly #start = performance.now()
  readonly #caller: AbortSignal | undefined
  readonly #timer: ReturnType<typeof setTimeout>
  // Not `AbortSignal.any`: it would retain the step's signal for as long as the caller's signal lives.
  readonly #abort = () => this.controller.abort(this.#caller?.reason)

  constructor(timeout: number, caller: AbortSignal | undefined, controller = new AbortController()) {
    this.controller = controller
    this.#caller = caller
    caller?.addEventListener("abort", this.#abort, { once: true })
    this.#timer = setTimeout(() => {
      this.timedOut = true
      this.controller.abort()
    }, timeout)
  }

  get took(): number {
    return performance.now() - this.#start
  }

  /** The reply for a failed step. Throws the signal's reason if the caller aborted. */
  noResponse(cause: unknown, jobId?: string): NoResponse {
    this.#caller?.throwIfAborted()
    return { _tag: "NoResponse", cause, timedOut: this.timedOut, jobId, took: this.took }
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#caller?.removeEventListener("abort", this.#abort)
  }
}

/** The open response. */
interface EventStream {
  readonly reader: ReadableStreamDefaultReader<Uint8Array>
  readonly controller: AbortController
  readonly decoder: TextDecoder
  readonly parser: SseParser
}

const isEvents = (response: Response): boolean =>
  response.status === 200 && (response.headers.get("content-type") ?? "").startsWith("text/event-stream")

const sleep = async ({ atLeast, spread }: Pause, signal: AbortSignal | undefined): Promise<PauseEnded> => {
  const took = atLeast + Math.random() * spread
  await new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener("abort", end)
      resolve()
    }
    const timer = setTimeout(end, took)
    signal?.addEventListener("abort", end, { once: true })
  })
  signal?.throwIfAborted()
  return { _tag: "PauseEnded", took }
}

/** Runs the programs of one subscription, one after another. An open response stays open between them. */
export class Session {
  readonly #fetch: Fetch
  #stream: EventStream | undefined

  constructor(fetch: Fetch) {
    this.#fetch = fetch
  }

  /** Runs a program. Rejects with a `CallError`, or with the signal's reason. */
  async drive<A>(program: Program<A>, signal: AbortSignal | undefined): Promise<A> {
    let next = program.next()
    while (next.done !== true) {
      const step = next.value
      signal?.throwIfAborted()
      next = program.next(
        step._tag === "Pause"
          ? await sleep(step, signal)
          : step._tag === "Read"
          ? await this.#read(step.timeout, signal)
          : await this.#send(step, signal)
      )
    }
    return next.value
  }

  /** Closes the open response. */
  close(): void {
    this.#stream?.controller.abort()
    this.#stream = undefined
  }

  async #send(step: Call | OpenStream, signal: AbortSignal | undefined): Promise<HttpResponse | Opened | NoResponse> {
    const { body, headers, method, timeout, url } = step
    const deadline = new RequestDeadline(timeout, signal)
    let jobId: string | undefined
    try {
      const response = await this.#fetch(url, {
        method,
        headers: { ...headers },
        // The platform uses no cookies, and sending them would require further CORS permissions in a browser.
        credentials: "omit",
        cache: "no-store",
        redirect: "manual",
        signal: deadline.controller.signal,
        ...(body === undefined ? {} : { body })
      })
      jobId = response.headers.get("x-job-id") ?? undefined
      if (step._tag === "OpenStream" && isEvents(response) && response.body !== null) {
        this.close()
        this.#stream = {
          reader: response.body.getReader(),
          controller: deadline.controller,
          decoder: new TextDecoder(),
          parser: new SseParser()
        }
        return { _tag: "Opened", took: deadline.took }
      }
      const text = await response.text()
      return {
        _tag: "HttpResponse",
        status: response.status,
        text,
        retryAfter: response.headers.get("retry-after") ?? undefined,
        location: response.headers.get("location") ?? undefined,
        jobId,
        took: deadline.took
      }
    } catch (cause) {
      return deadline.noResponse(cause, jobId)
    } finally {
      deadline.end()
    }
  }

  async #read(timeout: number, signal: AbortSignal | undefined): Promise<Events | Closed | NoResponse> {
    const stream = this.#stream
    if (stream === undefined) throw unexpectedReply("Read", { _tag: "Closed", took: 0 })
    const deadline = new RequestDeadline(timeout, signal, stream.controller)
    try {
      const { done, value } = await stream.reader.read()
      if (!done) {
        const events = stream.parser.feed(stream.decoder.decode(value, { stream: true }))
        return { _tag: "Events", events, took: deadline.took }
      }
      this.#stream = undefined
      return { _tag: "Closed", took: deadline.took }
    } catch (cause) {
      this.#stream = undefined
      return deadline.noResponse(cause)
    } finally {
      deadline.end()
    }
  }
}

/** Runs a program without `OpenStream`. */
export const drive = <A>(fetch: Fetch, program: Program<A>, signal: AbortSignal | undefined): Promise<A> =>
  new Session(fetch).drive(program, signal)
