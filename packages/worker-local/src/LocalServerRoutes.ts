/**
 * The routes of the local API: what is at which address, and what it answers (specification 4.2; the table is in `LocalServer`).
 *
 * ```
 *   origin of another machine -> 403     no such address -> 404     another method -> 405 with Allow     else the operation
 * ```
 */
import { isTerminal, RunRequest } from "@stint/contract/Job"
import { sample } from "@stint/worker/TestInput"
import { VERSION } from "@stint/worker/Version"
import { WorkerConfig } from "@stint/worker/WorkerConfig"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { IncomingMessage } from "node:http"
import * as LocalJobQueue from "./LocalJobQueue.ts"
import * as Http from "./LocalServerHttp.ts"
import { page } from "./LocalServerPage.ts"
import * as LocalWebhook from "./LocalWebhook.ts"

const MEBIBYTE = 1024 * 1024

/** What a deployed endpoint takes (docs/spec/jobs-api.md#limits). Bytes. */
const LIMITS = { run: 10 * MEBIBYTE, runsync: 20 * MEBIBYTE }

/** How long calls wait unless they say otherwise, and the most that they may say. Milliseconds. */
const WAIT_LIMITS = { sync: 90_000, stream: 10_000, max: 300_000 }

/** What the parts of the local API tell each other. */
export interface State {
  /** Why it stops, once it does. */
  stopping: string | undefined
  /** It listens on more than this machine's own address. */
  open: boolean
  /** The worker has asked for jobs: it is ready. */
  taking: boolean
}

const RUN_HINT = "Send a JSON object with the key \"input\", for example {\"input\": {\"name\": \"Ada\"}}."

/** `input` came out of `JSON.parse`: that it is JSON needs no second look, which would cost time that grows with it. */
const RunBody = Schema.Struct({
  ...RunRequest.fields,
  input: Schema.Unknown,
  webhook: Schema.optionalKey(
    Schema.String.check(
      Schema.makeFilter((text) => LocalWebhook.isAddress(text) ? undefined : "Expected an http or https address")
    )
  )
})
const parseRun = Http.parseAs(RunBody, RUN_HINT)
const isJson = (value: unknown): value is Schema.Json => value !== undefined

/** A `wait` in milliseconds, pulled into what is allowed. */
const waitOf = (query: URLSearchParams, fallback: number): number => {
  const text = query.get("wait") ?? ""
  const asked = Number(text)
  return text.trim() === "" || Number.isNaN(asked) ? fallback : Math.min(WAIT_LIMITS.max, Math.max(0, Math.trunc(asked)))
}

const redirect: Http.LocalResponse = { status: 307, headers: { location: "/" }, text: "" }

/** What answers a request, whatever it is; fails with what is to be answered instead. */
export const make = Effect.fnUntraced(function*(jobs: LocalJobQueue.LocalJobQueue, state: State) {
  const { identity } = yield* WorkerConfig
  const jobJsonMembers = (job: LocalJobQueue.LocalJob) => LocalJobQueue.jobJsonMembers(job, identity.workerId)
  const jobAnswer = (job: LocalJobQueue.LocalJob) => Http.json(`{${jobJsonMembers(job)}}`)
  const receipt = ({ id }: LocalJobQueue.LocalJob, status: string) => Http.json(`{"id":"${id}","status":"${status}"}`)

  const submit = Effect.fnUntraced(function*(request: IncomingMessage, limit: number) {
    const { input, ...rest } = yield* parseRun(yield* Http.readText(request, limit))
    if (state.stopping !== undefined) {
      return yield* new Http.LocalApiError({
        status: 503,
        error: `The local API is stopping (${state.stopping}).`,
        hint: "Start it again, and send the job again."
      })
    }
    const job = jobs.submit({ ...rest, input: isJson(input) ? input : null })
    if (job !== undefined) return job
    return yield* new Http.LocalApiError({
      status: 429,
      error: `${LocalJobQueue.MAX_QUEUED_JOBS} jobs are waiting; the local API keeps them in memory and takes no more.`,
      hint: "Wait for some to end, or run more at once with --rp_api_concurrency."
    })
  })

  const orMissing = <A>(id: string, found: A | undefined): Effect.Effect<A, Http.LocalApiError> =>
    found === undefined
      ? Effect.fail(
        new Http.LocalApiError({
          status: 404,
          kind: { type: "job-not-found", title: "Job not found" },
          error: `There is no job "${Http.excerpt(id)}" here.`,
          hint:
            `Check the id; /run answers with it. The newest ${LocalJobQueue.MAX_FINISHED_JOBS} ended jobs are kept, until the process ends.`
        })
      )
      : Effect.succeed(found)

  const status = Effect.fnUntraced(function*(id: string, wait: number) {
    return jobAnswer(yield* orMissing(id, yield* jobs.awaitCompletion(id, wait)))
  })

  const stream = Effect.fnUntraced(function*(id: string, wait: number) {
    const { chunks, job, more } = yield* orMissing(id, yield* jobs.readStream(id, wait))
    // While chunks are left the job is not said to have ended: clients stop reading at that (docs/spec/streaming.md#end-of-a-stream).
    const shown = more && isTerminal(job.status)
      ? { ...job, status: "IN_PROGRESS" as const, endedAt: undefined, output: undefined, error: undefined }
      : job
    return Http.json(`{${jobJsonMembers(shown)},"stream":[${chunks.map((chunk) => `{"output":${chunk}}`).join(",")}]}`)
  })

  const health = () => {
    const { CANCELLED: _, COMPLETED, FAILED, IN_PROGRESS, IN_QUEUE, TIMED_OUT } = jobs.counts()
    const free = state.taking && IN_PROGRESS === 0 ? 1 : 0
    return Http.json(JSON.stringify({
      jobs: { completed: COMPLETED, failed: FAILED + TIMED_OUT, inProgress: IN_PROGRESS, inQueue: IN_QUEUE, retried: 0 },
      workers: {
        idle: free,
        initializing: state.taking ? 0 : 1,
        ready: free,
        running: IN_PROGRESS === 0 ? 0 : 1,
        throttled: 0,
        unhealthy: 0
      }
    }))
  }

  /** A call for one job. */
  interface Call {
    readonly request: IncomingMessage
    readonly query: URLSearchParams
    readonly id: string
    /** The address was that of a deployed endpoint. */
    readonly deployed: boolean
  }

  interface Operation {
    readonly methods: ReadonlyArray<string>
    /** More methods, where the address is that of a deployed endpoint. */
    readonly deployedMethods?: ReadonlyArray<string>
    readonly run: (call: Call) => Effect.Effect<Http.LocalResponse, Http.LocalApiError>
  }

  /** What there is, by the first part of the path; those of the second list have an id after it. */
  const operations: { readonly [name: string]: Operation } = {
    run: {
      methods: ["POST"],
      run: ({ deployed, request }) =>
        Effect.map(submit(request, LIMITS.run), (job) => receipt(job, deployed ? "IN_QUEUE" : "IN_PROGRESS"))
    },
    runsync: {
      methods: ["POST"],
      run: ({ query, request }) =>
        Effect.flatMap(submit(request, LIMITS.runsync), ({ id }) => status(id, waitOf(query, WAIT_LIMITS.sync)))
    },
    health: { methods: ["GET"], run: () => Effect.sync(health) }
  }
  const jobOperations: { readonly [name: string]: Operation } = {
    status: {
      methods: ["POST"],
      deployedMethods: ["GET", "POST"],
      run: ({ deployed, id, query }) => status(id, deployed ? 0 : waitOf(query, WAIT_LIMITS.sync))
    },
    "status-sync": {
      methods: ["POST"],
      deployedMethods: ["GET", "POST"],
      run: ({ id, query }) => status(id, waitOf(query, WAIT_LIMITS.sync))
    },
    stream: {
      methods: ["POST"],
      deployedMethods: ["GET", "POST"],
      run: ({ id, query }) => stream(id, waitOf(query, WAIT_LIMITS.stream))
    },
    cancel: {
      methods: ["POST"],
      run: ({ id }) =>
        Effect.map(
          Effect.suspend(() => orMissing(id, jobs.cancel(id))),
          (job) => receipt(job, job.status)
        )
    }
  }
  const documents: { readonly [path: string]: (request: IncomingMessage) => Http.LocalResponse } = {
    "": (request) =>
      page({ host: request.headers.host, port: request.socket.localPort ?? 0, version: VERSION, sample: sample() }),
    docs: () => redirect
  }

  const notAllowed = (method: string, path: string, allow: ReadonlyArray<string>, hint: string) =>
    new Http.LocalApiError({
      status: 405,
      error: `${method} is not for /${Http.excerpt(path)}.`,
      hint: `Use ${allow.join(" or ")}.${hint}`,
      allow: allow.join(", ")
    })

  return Effect.fnUntraced(function*(request: IncomingMessage) {
    const { method = "GET", url = "/" } = request
    if (Http.isCrossOrigin(request.headers, state.open)) {
      return yield* new Http.LocalApiError({
        status: 403,
        error: `The page ${Http.excerpt(String(request.headers.origin))} may not call the local API, which has no keys.`,
        hint: "Open the page from this machine (http://localhost:...), or call the API from a program."
      })
    }
    const { parts, query } = yield* Http.readTarget(url)
    const first = parts[0] ?? ""
    const document = parts.length <= 1 && Object.hasOwn(documents, first) ? documents[first] : undefined
    if (document !== undefined) {
      if (method === "GET" || method === "HEAD") return document(request)
      return yield* notAllowed(method, parts.join("/"), ["GET", "HEAD"], "")
    }
    const deployed = parts[0] === "v2" && parts.length > 2
    const [name = "", id, ...rest] = deployed ? parts.slice(2) : parts
    const table = id === undefined ? operations : jobOperations
    const operation = rest.length === 0 && Object.hasOwn(table, name) ? table[name] : undefined
    if (operation === undefined) {
      return yield* new Http.LocalApiError({
        status: 404,
        error: `Nothing is at ${method} /${Http.excerpt(parts.join("/"))}.`,
        hint:
          "The local API has POST /run, /runsync, /status/{id}, /stream/{id}, /cancel/{id} and GET /health; GET / describes them. " +
          "`stint dev` with the handler's file has everything that the platform has."
      })
    }
    const allow = deployed ? operation.deployedMethods ?? operation.methods : operation.methods
    if (!allow.includes(method)) {
      const twin = !deployed && operation.deployedMethods?.includes(method) === true
      return yield* notAllowed(
        method,
        parts.join("/"),
        allow,
        twin ? ` As on a deployed endpoint, with ${method}, it is at /v2/local/${Http.excerpt(parts.join("/"))}.` : ""
      )
    }
    return yield* operation.run({ request, query, id: id ?? "", deployed })
  })
})
