/**
 * Performs programs with `fetch` and timers: Node, Deno, Bun, workers and browsers alike.
 *
 * An AbortSignal ends the request, the reading or the pause of the moment, and with it the program.
 */
import {
  type Call,
  type Closed,
  type HttpResponse,
  type NoResponse,
  type Opened,
  type OpenStream,
  type Part,
  type Pause,
  type PauseEnded,
  type Program,
  unexpectedReply
} from "./protocol/DriverProtocol.ts"

/** What a request is made with. */
export type Fetch = typeof globalThis.fetch

/** What can be given up, by the caller or by time. */
class RequestDeadline {
  readonly controller: AbortController
  timedOut = false
  readonly #start = performance.now()
  readonly #caller: AbortSignal | undefined
  readonly #timer: ReturnType<typeof setTimeout>
  // Not `AbortSignal.any`, which keeps a short-lived signal alive as long as the caller's.
  readonly #give = () => this.controller.abort(this.#caller?.reason)

  constructor(timeout: number, caller: AbortSignal | undefined, controller = new AbortController()) {
    this.controller = controller
    this.#caller = caller
    caller?.addEventListener("abort", this.#give, { once: true })
    this.#timer = setTimeout(() => {
      this.timedOut = true
      this.controller.abort()
    }, timeout)
  }

  get took(): number {
    return performance.now() - this.#start
  }

  /** No answer; throws the caller's reason where it was the caller who ended it. */
  noResponse(cause: unknown, jobId?: string): NoResponse {
    this.#caller?.throwIfAborted()
    return { _tag: "NoResponse", cause, timedOut: this.timedOut, jobId, took: this.took }
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#caller?.removeEventListener("abort", this.#give)
  }
}

/** An answer that is read as it comes. */
interface Incoming {
  readonly reader: ReadableStreamDefaultReader<Uint8Array>
  readonly controller: AbortController
  readonly decoder: TextDecoder
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

/** Performs the programs of one reader, one after the other. An answer that is read as it comes stays open between them. */
export class Session {
  readonly #fetch: Fetch
  #incoming: Incoming | undefined

  constructor(fetch: Fetch) {
    this.#fetch = fetch
  }

  /** Performs a program to its end. Rejects with a `CallError`, or with the signal's reason. */
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

  /** Hangs up. */
  close(): void {
    this.#incoming?.controller.abort()
    this.#incoming = undefined
  }

  async #send(step: Call | OpenStream, signal: AbortSignal | undefined): Promise<HttpResponse | Opened | NoResponse> {
    const { body, headers, method, timeout, url } = step
    const deadline = new RequestDeadline(timeout, signal)
    let jobId: string | undefined
    try {
      const response = await this.#fetch(url, {
        method,
        headers: { ...headers },
        // The platform knows no cookies; a browser that sends them needs more of CORS.
        credentials: "omit",
        cache: "no-store",
        redirect: "manual",
        signal: deadline.controller.signal,
        ...(body === undefined ? {} : { body })
      })
      jobId = response.headers.get("x-job-id") ?? undefined
      if (step._tag === "OpenStream" && isEvents(response) && response.body !== null) {
        this.close()
        this.#incoming = { reader: response.body.getReader(), controller: deadline.controller, decoder: new TextDecoder() }
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

  async #read(timeout: number, signal: AbortSignal | undefined): Promise<Part | Closed | NoResponse> {
    const incoming = this.#incoming
    if (incoming === undefined) throw unexpectedReply("Read", { _tag: "Closed", took: 0 })
    const deadline = new RequestDeadline(timeout, signal, incoming.controller)
    try {
      const { done, value } = await incoming.reader.read()
      if (!done) return { _tag: "Part", text: incoming.decoder.decode(value, { stream: true }), took: deadline.took }
      this.#incoming = undefined
      return { _tag: "Closed", took: deadline.took }
    } catch (cause) {
      this.#incoming = undefined
      return deadline.noResponse(cause)
    } finally {
      deadline.end()
    }
  }
}

/** Performs a program that reads nothing as it comes. */
export const drive = <A>(fetch: Fetch, program: Program<A>, signal: AbortSignal | undefined): Promise<A> =>
  new Session(fetch).drive(program, signal)
