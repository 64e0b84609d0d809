/**
 * A mock platform whose endpoints are functions, for tests of callers. It has no server, no workers and no timers. The tests use the real
 * client with the `fetch` of the mock platform.
 *
 * ```ts
 * const platform = mockPlatform({ hello: ({ name }: { name: string }) => ({ greeting: `Hello, ${name}` }) })
 * const client = createClient(platform)
 * ```
 *
 * ```
 *   run, runsync --> IN_PROGRESS --the function returns--> COMPLETED
 *                        |        --it throws, or returns an object with `error`--> FAILED --retry--> IN_PROGRESS
 *                        +--cancel: aborts its signal--> CANCELLED
 * ```
 */
import type { Job, Json } from "../ApiTypes.ts"
import { isRecord } from "../CallError.ts"
import type { Fetch } from "../FetchDriver.ts"
import { hasEnded } from "../JobOutcome.ts"

/** Throw this in a mock handler to fail the job with this `error`, like a failure that a handler declares. */
export class MockFailure extends Error {
  override readonly name = "MockFailure"
  readonly error: unknown

  constructor(error: unknown) {
    super("A mocked failure.")
    this.error = error
  }
}

/** The job that a mock handler runs. */
export interface MockJob {
  readonly id: string
  readonly endpoint: string
  /** Starts at 1; each retry is a new attempt. */
  readonly attempt: number
  /** Aborted when the job is cancelled. */
  readonly signal: AbortSignal
  /** Reports progress. */
  readonly progress: (output: Json) => void
}

/**
 * Runs the jobs of one endpoint. Returns the output or a promise of it. A generator yields chunks, and its output is the list of those
 * chunks. As in a worker, an exception or a returned object with the key `error` fails the job.
 */
export type MockHandler = (input: never, job: MockJob) => unknown

/** A submitted job. */
export interface SubmittedJob extends Job {
  readonly endpoint: string
  readonly input: unknown
  /** The request body: `policy`, `priority`, `tags`, ... */
  readonly request: Readonly<Record<string, unknown>>
}

/** The mock platform. Pass it to `createClient`. */
export interface MockPlatform {
  readonly baseUrl: string
  readonly fetch: Fetch
  /** All jobs, oldest first. */
  readonly jobs: () => ReadonlyArray<SubmittedJob>
}

interface MockState {
  readonly endpoint: string
  readonly request: Readonly<Record<string, unknown>>
  job: Job
  attempt: number
  controller: AbortController
  /** Chunks that no call to `stream` has returned yet. */
  unread: Array<unknown>
  /** The text of each Server-Sent Event. Its position is its number, from 1. */
  readonly events: Array<string>
  /** Wake the requests that wait for a change to the job. */
  readonly waiters: Set<() => void>
}

/** Gives the input the type that the test's handler declares. The mock platform does not validate inputs. */
function asInput(json: unknown): never
function asInput(json: unknown): unknown {
  return json
}

/** Gives a type to a value from `JSON.parse`. */
function asJson(json: unknown): Json
function asJson(json: unknown): unknown {
  return json
}

const isIterable = (value: unknown): value is AsyncIterable<unknown> | Iterable<unknown> =>
  typeof value === "object" && value !== null && "next" in value && (Symbol.asyncIterator in value || Symbol.iterator in value)

const json = (status: number, body: unknown, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json", ...headers } })

const problem = (status: number, kind: string, error: string, hint: string): Response =>
  json(status, { type: `/problems/${kind}`, title: kind, status, detail: error, error, hint })

/** The six fields of an exception (docs/spec/handler.md#exceptions). */
const exceptionText = (cause: unknown): string =>
  JSON.stringify({
    error_type: cause instanceof Error ? cause.name : typeof cause,
    error_message: cause instanceof Error ? cause.message : String(cause),
    error_traceback: cause instanceof Error ? cause.stack ?? "" : "",
    hostname: "mock",
    worker_id: "mock",
    runpod_version: "mock"
  })

const errorText = (error: unknown): string => typeof error === "string" ? error : JSON.stringify(error)

/** Converts a value to JSON and back. Preserves undefined, which JSON does not have. */
const jsonRoundTrip = (value: unknown): unknown => value === undefined ? undefined : JSON.parse(JSON.stringify(value) ?? "null")

/** Creates a mock platform. Its endpoints are these functions, by name. */
export const mockPlatform = (handlers: Readonly<Record<string, MockHandler>>): MockPlatform => {
  const states = new Map<string, MockState>()

  const emit = (state: MockState, event: string, data: unknown) => {
    state.events.push(`id: ${state.events.length + 1}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
    for (const wake of [...state.waiters]) wake()
  }

  const change = (state: MockState, job: Job) => {
    state.job = job
    if (hasEnded(job)) emit(state, "end", job)
    else emit(state, "status", { id: job.id, status: job.status, attempt: state.attempt, workerId: "mock" })
  }

  const attempt = async (state: MockState, handler: MockHandler): Promise<void> => {
    const { controller, endpoint, job: { id }, request } = state
    state.attempt += 1
    const number = state.attempt
    const isDone = () => state.attempt !== number || hasEnded(state.job)
    change(state, { id, status: "IN_PROGRESS", delayTime: 0, workerId: "mock" })
    const end = (rest: Pick<Job, "status"> & Partial<Job>) => {
      if (!isDone()) change(state, { id, delayTime: 0, executionTime: 0, workerId: "mock", ...rest })
    }
    try {
      const progress = (output: Json) => {
        if (isDone()) return
        state.job = { ...state.job, output }
        emit(state, "progress", { attempt: number, output })
      }
      // Like a platform, respond to the submission before the handler starts.
      await Promise.resolve()
      const result = await handler(asInput(jsonRoundTrip(request["input"])), {
        id,
        endpoint,
        attempt: number,
        signal: controller.signal,
        progress
      })
      if (!isIterable(result)) {
        const output = jsonRoundTrip(result)
        if (isRecord(output) && "error" in output) return end({ status: "FAILED", error: errorText(output["error"]) })
        return end({ status: "COMPLETED", ...(output === undefined ? {} : { output: asJson(output) }) })
      }
      const chunks: Array<Json> = []
      for await (const chunk of result) {
        if (isDone()) return
        const output = asJson(jsonRoundTrip(chunk))
        chunks.push(output)
        state.unread.push({ output })
        emit(state, "chunk", { attempt: number, number: chunks.length, output })
      }
      end({ status: "COMPLETED", output: chunks })
    } catch (cause) {
      end({ status: "FAILED", error: cause instanceof MockFailure ? errorText(cause.error) : exceptionText(cause) })
    }
  }

  const submit = (endpoint: string, handler: MockHandler, body: unknown, prefix: string, key: string | null): MockState => {
    const existing = [...states.values()].find((one) =>
      key !== null && one.endpoint === endpoint && one.request["idempotencyKey"] === key
    )
    if (existing !== undefined) return existing
    const request = { ...(isRecord(body) ? body : {}), ...(key === null ? {} : { idempotencyKey: key }) }
    const id = `${prefix}mock-${states.size + 1}`
    const state: MockState = {
      endpoint,
      request,
      job: { id, status: "IN_QUEUE" },
      attempt: 0,
      controller: new AbortController(),
      unread: [],
      events: [],
      waiters: new Set()
    }
    states.set(id, state)
    void attempt(state, handler)
    return state
  }

  /** Waits for the next change to a job. Rejects when the caller disconnects. */
  const next = (state: MockState, signal: AbortSignal | null | undefined): Promise<void> =>
    new Promise((resolve, reject) => {
      const done = () => {
        state.waiters.delete(wake)
        signal?.removeEventListener("abort", onAbort)
      }
      const wake = () => {
        done()
        resolve()
      }
      const onAbort = () => {
        done()
        const reason: unknown = signal?.reason
        reject(reason instanceof Error ? reason : new Error("The caller disconnected."))
      }
      state.waiters.add(wake)
      signal?.addEventListener("abort", onAbort)
    })

  const ended = async (state: MockState, signal: AbortSignal | null | undefined): Promise<Job> => {
    while (!hasEnded(state.job)) await next(state, signal)
    return state.job
  }

  const events = (state: MockState, after: number, signal: AbortSignal | null | undefined): Response => {
    const isEnd = (event: string | undefined) => event?.includes("\nevent: end\n") === true
    if (after > 0 && after === state.events.length && isEnd(state.events.at(-1))) return new Response(null, { status: 204 })
    let at = after
    const encoder = new TextEncoder()
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        try {
          while (at >= state.events.length) await next(state, signal)
          const event = state.events[at]
          at += 1
          controller.enqueue(encoder.encode(event))
          if (isEnd(event) && at === state.events.length) controller.close()
        } catch (cause) {
          controller.error(cause)
        }
      }
    }, { highWaterMark: 0 })
    return new Response(body, { headers: { "content-type": "text/event-stream" } })
  }

  const countJobs = (...statuses: ReadonlyArray<Job["status"]>) =>
    [...states.values()].filter(({ job }) => statuses.includes(job.status)).length

  const ofJob = async (
    state: MockState,
    handler: MockHandler,
    operation: string,
    url: URL,
    signal: AbortSignal | null | undefined
  ) => {
    switch (operation) {
      case "status":
        return json(200, state.job)
      case "status-sync":
        return json(200, await ended(state, signal))
      case "events":
        return events(state, Number(url.searchParams.get("lastEventId") ?? 0), signal)
      case "stream": {
        if (state.unread.length === 0 && !hasEnded(state.job)) await next(state, signal)
        return json(200, { ...state.job, stream: state.unread.splice(0) })
      }
      case "cancel":
        if (!hasEnded(state.job)) {
          change(state, { id: state.job.id, status: "CANCELLED" })
          state.controller.abort()
        }
        return json(200, { id: state.job.id, status: state.job.status })
      case "retry":
        if (state.job.status !== "FAILED" && state.job.status !== "TIMED_OUT") {
          return problem(409, "conflict", `The job is ${state.job.status}.`, "Only a FAILED or TIMED_OUT job can be retried.")
        }
        state.unread = []
        state.controller = new AbortController()
        state.job = { id: state.job.id, status: "IN_QUEUE" }
        void attempt(state, handler)
        return json(200, { id: state.job.id, status: "IN_QUEUE" })
      default:
        return undefined
    }
  }

  const ofEndpoint = async (
    endpoint: string,
    handler: MockHandler,
    operation: string,
    request: Request,
    signal: AbortSignal | null | undefined
  ) => {
    switch (operation) {
      case "run":
      case "runsync": {
        const key = request.headers.get("idempotency-key")
        const state = submit(endpoint, handler, await request.json(), operation === "run" ? "" : "sync-", key)
        const headers = { "x-job-id": state.job.id }
        return operation === "run"
          ? json(200, { id: state.job.id, status: "IN_QUEUE" }, headers)
          : json(200, await ended(state, signal), headers)
      }
      // Every job starts at once, so the queue is always empty.
      case "purge-queue":
        return json(200, { removed: 0, status: "completed" })
      case "health":
        return json(200, {
          jobs: {
            completed: countJobs("COMPLETED"),
            failed: countJobs("FAILED", "TIMED_OUT"),
            inProgress: countJobs("IN_PROGRESS"),
            inQueue: countJobs("IN_QUEUE"),
            retried: 0
          },
          workers: { idle: 1, initializing: 0, ready: 1, running: 0, throttled: 0, unhealthy: 0 }
        })
      default:
        return undefined
    }
  }

  return {
    baseUrl: "http://mock.stint.test",
    jobs: () =>
      [...states.values()].map(({ endpoint, job, request }) => ({ ...job, endpoint, input: request["input"], request })),
    fetch: async (input, init) => {
      const request = new Request(input, init)
      const signal = init?.signal ?? request.signal
      signal.throwIfAborted()
      const url = new URL(request.url)
      const [, , endpoint = "", operation = "", id] = url.pathname.split("/").map(decodeURIComponent)
      const handler = Object.hasOwn(handlers, endpoint) ? handlers[endpoint] : undefined
      if (handler === undefined) {
        const names = Object.keys(handlers).join(", ")
        return problem(
          404,
          "endpoint-not-found",
          `The endpoint "${endpoint}" does not exist.`,
          `The mock platform has these endpoints: ${names}.`
        )
      }
      const state = id === undefined ? undefined : states.get(id)
      if (id !== undefined && state?.endpoint !== endpoint) {
        return problem(404, "job-not-found", `The endpoint "${endpoint}" has no job "${id}".`, "Submit it first.")
      }
      const response = state === undefined
        ? await ofEndpoint(endpoint, handler, operation, request, signal)
        : await ofJob(state, handler, operation, url, signal)
      return response ??
        problem(
          404,
          "route-not-found",
          `The route ${url.pathname} does not exist.`,
          "The mock platform has the routes that the client calls."
        )
    }
  }
}
