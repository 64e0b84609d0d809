/**
 * Local test mode with `--rp_serve_api`: the handler behind an HTTP API of its own, shaped as the deployed endpoint
 * (docs/spec/local-test-mode.md#local-api, docs/spec/rulings.md#local-test-mode).
 *
 * It is a transport like the other two. What runs between is the runtime that runs in production, so that a handler behaves here
 * as it will there:
 *
 * ```
 *   POST /run, /runsync --> LocalJobQueue --take--> the worker --chunk, progress, done--> LocalJobQueue --> /status, /stream, the webhook
 *   POST /cancel ---------> LocalJobQueue --stops-> the worker
 * ```
 *
 * | route | |
 * |---|---|
 * | `POST /run` | starts a job: `{"id":"test-...","status":"IN_PROGRESS"}` |
 * | `POST /runsync` | the same, and waits for it, up to 90 s or `?wait=MS` |
 * | `POST /status/{id}` | waits for the job, up to 90 s or `?wait=MS` |
 * | `POST /stream/{id}` | the chunks that nobody has read; waits for one, up to 10 s or `?wait=MS` |
 * | `POST /cancel/{id}` | ends a job |
 * | `GET /health` | jobs and workers by state |
 * | `GET /` | the documentation; `/docs` leads there with 307 |
 *
 * `/v2/{any name}/...` has the same as a deployed endpoint spells it, for clients with a base address: `GET` for status and stream
 * too, `status` without waiting, `status-sync`. There are no keys: a page of another machine is refused, and any other address
 * than this machine's own is warned of.
 *
 * A result that asks for a fresh worker changes nothing, because nobody would start one. When the process is told to stop, jobs
 * that have not started end as FAILED, running ones are finished, and whoever waits for them is answered.
 */
import { JobSource, JobSourceError, Refused } from "@stint/worker/JobSource"
import { LocalModeError } from "@stint/worker/LocalMode"
import { REQUEST_ID } from "@stint/worker/Logger"
import { Shutdown } from "@stint/worker/Shutdown"
import * as TestInput from "@stint/worker/TestInput"
import { WorkerConfig } from "@stint/worker/WorkerConfig"
import * as Cause from "effect/Cause"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { IncomingMessage, Server, ServerResponse } from "node:http"
import * as LocalJobQueue from "./LocalJobQueue.ts"
import * as Http from "./LocalServerHttp.ts"
import * as LocalServerRoutes from "./LocalServerRoutes.ts"
import * as LocalWebhook from "./LocalWebhook.ts"

/** How the local API differs from its defaults. */
export interface Options {
  /** Anything here is ignored with a line in the log: jobs come from callers. */
  readonly jobs?: unknown
}

/** Where it listens unless the flags say otherwise (docs/spec/local-test-mode.md#flags). */
export const DEFAULT_PORT = 8000
/** This machine alone can reach it. */
export const DEFAULT_HOST = "127.0.0.1"

const MEBIBYTE = 1024 * 1024

/** What a platform takes of a worker (docs/spec/local-test-mode.md#local-limits, docs/spec/jobs-api.md#limits). Bytes. */
const LIMITS = { result: 20 * MEBIBYTE, chunk: MEBIBYTE }

/** How long the end waits for answers on their way, and for webhooks. Milliseconds. */
const CLOSE_LIMITS = { answers: 2_000, webhooks: 5_000 }

const stopped = (reason: string) =>
  `The local API was stopped (${reason}) before this job was done. Start it again and send the job again.`

const listenErrorMessage = ({ code, message }: NodeJS.ErrnoException, host: string, port: number): string => {
  switch (code) {
    case "EADDRINUSE":
      return `Port ${port} of ${host} is in use. Stop what uses it, or pass --rp_api_port with another port (0 takes a free one).`
    case "EACCES":
      return `Port ${port} of ${host} may not be used by this user. Pass --rp_api_port with a port of 1024 or more.`
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `--rp_api_host is "${host}", which is no address of this machine (${code}). Leave it out, or pass 127.0.0.1 or 0.0.0.0.`
    default:
      return `The local API cannot listen on ${host}, port ${port}: ${message}.`
  }
}

const listen = (server: Server, host: string, port: number) =>
  Effect.callback<{ readonly address: string; readonly port: number }, LocalModeError>((resume) => {
    const failed = (error: Error) => resume(Effect.fail(new LocalModeError({ message: listenErrorMessage(error, host, port) })))
    server.once("error", failed)
    server.listen(port, host, () => {
      server.off("error", failed)
      const bound = server.address()
      resume(Effect.succeed(typeof bound === "object" && bound !== null ? bound : { address: host, port }))
    })
  })

/** Where a program on this machine finds what listens there. */
const urlOf = ({ address, port }: { readonly address: string; readonly port: number }): string => {
  const host = address === "0.0.0.0" || address === "::" ? "127.0.0.1" : address
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`
}

/** A platform that would have given jobs, had the flag not been there. */
const ignoredPlatform = Effect.gen(function*() {
  for (const name of ["PLATFORM_WEBHOOK_GET_JOB", "RUNPOD_WEBHOOK_GET_JOB"]) {
    if (Option.isSome(yield* Config.option(Config.NonEmptyString(name)))) return name
  }
  return undefined
})

/** Waits, but not longer than that; in a finalizer, where nothing else could end the wait. */
const atMost = (wait: Effect.Effect<unknown>, limit: number) => Effect.timeoutOption(Effect.interruptible(wait), limit)

const make = Effect.fnUntraced(function*(options: Options) {
  const { flags, identity } = yield* WorkerConfig
  const shutdown = yield* Shutdown
  const state: LocalServerRoutes.State = { stopping: undefined, open: false, taking: false }

  const sendResult = yield* LocalWebhook.make(identity.workerId)
  const webhooks = yield* FiberSet.make<void>()
  const forkWebhook = yield* FiberSet.runtime(webhooks)()
  const calls = yield* FiberSet.make<void>()
  const forkCall = yield* FiberSet.runtime(calls)()
  const forkLog = yield* FiberSet.makeRuntime<never, void>()

  const jobs = yield* LocalJobQueue.make((job) => {
    const { endedAt = 0, id, startedAt = endedAt, status, submittedAt } = job
    forkLog(
      Effect.annotateLogs(
        Effect.logDebug(`${id}: ${status} (waited ${startedAt - submittedAt} ms, ran ${endedAt - startedAt} ms).`),
        REQUEST_ID,
        id
      )
    )
    forkWebhook(sendResult(job))
  })

  const answerTo = yield* LocalServerRoutes.make(jobs, state)
  const serve = (request: IncomingMessage, response: ServerResponse) =>
    answerTo(request).pipe(
      Effect.catchTag("LocalApiError", (refusal) => Effect.succeed(Http.problemResponse(refusal))),
      Effect.catchDefect((defect) =>
        Effect.as(
          Effect.logError("A request failed through a fault of the local API.", Cause.die(defect)),
          Http.problemResponse(
            new Http.LocalApiError({
              status: 500,
              error: "The request failed through a fault of the local API.",
              hint: "The log of the process says where; please report it."
            })
          )
        )
      ),
      Effect.map((answer) => {
        if (state.stopping !== undefined) response.setHeader("connection", "close")
        Http.send(response, answer, request.method !== "HEAD")
      })
    )
  const server = process.getBuiltinModule("node:http").createServer((request, response) => {
    const fiber = forkCall(serve(request, response))
    // Whoever hung up need not be waited for.
    response.on("close", () => fiber.interruptUnsafe())
  })

  /** Takes no more jobs and gives up those that have not started. Once; what runs is for the worker to finish. */
  const stop = (reason: string) =>
    Effect.suspend(() => {
      if (state.stopping !== undefined) return Effect.void
      state.stopping = reason
      const dropped = jobs.close("waiting", stopped(reason))
      const running = jobs.counts().IN_PROGRESS
      return Effect.logInfo(
        `Stopping: ${reason}.` +
          (running === 0 ? "" : ` ${running} running ${running === 1 ? "job is" : "jobs are"} finished first.`) +
          (dropped === 0 ? "" : ` ${dropped} that had not started ${dropped === 1 ? "is" : "are"} given up.`)
      )
    })

  yield* Effect.addFinalizer(() =>
    Effect.gen(function*() {
      // A worker without jobs is gone before whoever listens for its end has been heard.
      const reason = yield* Effect.raceFirst(Effect.interruptible(shutdown.requested), Effect.undefined)
      if (reason !== undefined) yield* stop(reason.reason)
      state.stopping ??= "the worker did not start"
      jobs.close("all", stopped(state.stopping))
      yield* atMost(FiberSet.awaitEmpty(calls), CLOSE_LIMITS.answers)
      const closed = Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeIdleConnections()
      })
      yield* atMost(closed, CLOSE_LIMITS.answers)
      server.closeAllConnections()
      if (Option.isNone(yield* atMost(FiberSet.awaitEmpty(webhooks), CLOSE_LIMITS.webhooks))) {
        yield* Effect.logWarning("Some webhooks did not take their results in time; those are lost.")
      }
    })
  )
  const bound = yield* listen(server, flags.apiHost ?? DEFAULT_HOST, flags.apiPort ?? DEFAULT_PORT)
  state.open = !Http.isLoopback(bound.address)

  const platform = yield* ignoredPlatform
  if (platform !== undefined) {
    yield* Effect.logWarning(`--rp_serve_api is given, so ${platform} is ignored: this process takes no jobs of the platform.`)
  }
  if (flags.testInput !== undefined) {
    yield* Effect.logWarning("--rp_serve_api is given, so --test_input is ignored: jobs come from callers.")
  }
  if (options.jobs !== undefined) {
    yield* Effect.logWarning("--rp_serve_api is given, so jobs_fetcher is not asked: jobs come from callers.")
  }
  if (state.open) {
    yield* Effect.logWarning(
      `The local API listens on ${bound.address} and has no keys: whoever reaches this machine can run the handler.`
    )
  }
  const url = urlOf(bound)
  yield* Effect.logInfo(
    `Local API at ${url} (open it for the documentation). Try it: ` +
      `curl -s -X POST ${url}/runsync -H 'Content-Type: application/json' -d ${TestInput.shellWord(TestInput.sample())}`
  )

  yield* Effect.forkScoped(Effect.flatMap(shutdown.requested, ({ reason }) => stop(reason)))

  let loggedRecycle = false
  const tooLarge = (what: string, limit: number) =>
    Effect.fail(
      new JobSourceError({
        reason: new Refused({ status: 413, text: `${what} may have ${limit / MEBIBYTE} MiB, here as on a platform` })
      })
    )
  return JobSource.of({
    take: ({ count }) =>
      Effect.suspend(() => {
        state.taking = true
        return jobs.take(count)
      }),
    deliverResult: (job, body) =>
      Effect.suspend(() => {
        if (Buffer.byteLength(body) > LIMITS.result) return tooLarge("a result", LIMITS.result)
        const { stopPod } = jobs.done(job.id, body)
        if (!stopPod) return Effect.void
        const line = "The handler asked for a fresh worker. A platform would start one; the local API goes on with this one."
        const log = loggedRecycle ? Effect.logDebug(line) : Effect.logInfo(line)
        loggedRecycle = true
        return log
      }),
    deliverChunk: (job, body) =>
      Effect.suspend(() => {
        if (Buffer.byteLength(body) > LIMITS.chunk) return tooLarge("a chunk", LIMITS.chunk)
        switch (jobs.chunk(job.id, body)) {
          case "kept":
            return Effect.void
          case "ended":
            return Effect.fail(new JobSourceError({ reason: new Refused({ status: 409, text: "the job has ended" }) }))
          case "full":
            return tooLarge("what nobody has read of a job's stream", LocalJobQueue.MAX_UNREAD_BYTES)
        }
      }),
    progress: (job, output) => Effect.sync(() => jobs.progress(job.id, output)),
    stopRequests: jobs.stops,
    ping: () => Effect.void,
    streaming: true,
    recycles: false
  })
})

/** The transport of the local API; it listens while the layer's scope is open. */
export const layer = (
  options: Options = {}
): Layer.Layer<JobSource, LocalModeError | Config.ConfigError, Shutdown | WorkerConfig> => Layer.effect(JobSource, make(options))
