/**
 * `stint workers` lists workers, drains one and stops one.
 */
import type { WorkerOverview } from "@stint/contract/OverviewApi"
import { Argument, Command } from "effect/cli"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { call } from "../client/PlatformClient.ts"
import { confirm } from "../output/Confirm.ts"
import * as Output from "../output/Output.ts"
import { endpoint, json, yes } from "./SharedFlags.ts"

const worker = Argument.String("worker").pipe(Argument.withDescription("Id of the worker, as `stint workers list` prints it"))

/** How many endpoints are read at the same time. */
const AT_ONCE = 8

/** How many jobs of a worker the table names. */
const SHOWN_JOBS = 2

const jobsText = (jobs: ReadonlyArray<string>): string =>
  jobs.length === 0
    ? "-"
    : `${jobs.slice(0, SHOWN_JOBS).join(" ")}${jobs.length > SHOWN_JOBS ? ` and ${jobs.length - SHOWN_JOBS} more` : ""}`

const stateText = ({ external, leaving, state }: WorkerOverview): string =>
  `${leaving === "stop" ? "stopping" : state}${external === true ? ", external" : ""}`

/** `2 of 4`; `unknown` before the worker has asked for a job. */
const slotsText = ({ jobs, slots }: WorkerOverview): string => slots === undefined ? "unknown" : `${jobs.length} of ${slots}`

/** `48 MB`; `unknown` when the worker's pool cannot measure it, or has not yet. */
const memoryText = (bytes: number | undefined): string => bytes === undefined ? "unknown" : `${Math.round(bytes / 1e6)} MB`

interface EndpointWorker extends WorkerOverview {
  readonly endpoint: string
}

const table = (all: ReadonlyArray<EndpointWorker>, now: number): string =>
  all.length === 0
    ? "No worker runs. The platform starts one for the next job."
    : Output.table([
      ["ENDPOINT", "WORKER", "STATE", "SLOTS", "JOBS", "RESULTS", "MEMORY", "LAST CALL"],
      ...all.map((one) => [
        one.endpoint,
        one.id,
        stateText(one),
        slotsText(one),
        jobsText(one.jobs),
        String(one.results),
        memoryText(one.memoryBytes),
        `${Math.max(0, Math.round((now - one.lastSeenAt) / 1_000))} s ago`
      ])
    ])

const list = Command.make(
  "list",
  { endpoint: Argument.optional(endpoint), json },
  Effect.fnUntraced(function*({ endpoint, json }) {
    const names = Option.isSome(endpoint)
      ? [endpoint.value]
      : (yield* call((api) => api.overview.overview())).endpoints.map(({ id }) => id)
    const details = yield* Effect.forEach(
      names,
      (name) => call((api) => api.overview.overviewOfEndpoint({ params: { endpoint: name } })),
      { concurrency: AT_ONCE }
    )
    const all = details.flatMap(({ id, list }) => list.map((one): EndpointWorker => ({ endpoint: id, ...one })))
    const now = yield* Clock.currentTimeMillis
    yield* Output.print(json, all, (workers) => table(workers, now))
  })
).pipe(Command.withDescription("List the workers of all endpoints, or of one, with their jobs"), Command.withAlias("ls"))

/** What the platform cannot do about a worker that it did not start. */
const externalText = (id: string): string =>
  `The platform did not start it: end its process yourself. A new process named ${id} gets jobs if the old one has not called for 30 s.`

const jobCount = (jobs: ReadonlyArray<string>): string => `${jobs.length} ${jobs.length === 1 ? "job" : "jobs"}`

const drainText = ({ external, id, jobs }: WorkerOverview): string => {
  const name = Output.inline(id)
  const first = jobs.length === 0
    ? `${name} takes no more jobs and runs none.`
    : `${name} takes no more jobs and finishes ${jobCount(jobs)}.`
  return `${first} ${
    external === true ? externalText(name) : "Then it exits, and the platform starts another one if the endpoint needs it."
  }`
}

const stopText = ({ external, id }: WorkerOverview): string => {
  const name = Output.inline(id)
  return external === true
    ? `${name} has lost its jobs and takes no more. ${externalText(name)}`
    : `${name} is being killed. The platform starts another one if the endpoint needs it.`
}

const drain = Command.make(
  "drain",
  { endpoint, worker, json },
  Effect.fnUntraced(function*({ endpoint, json, worker }) {
    const drained = yield* call((api) => api.control.drainWorker({ params: { endpoint, worker } }))
    yield* Output.print(json, drained, drainText)
  })
).pipe(Command.withDescription("Give a worker no more jobs; it exits after its current ones"))

const stop = Command.make(
  "stop",
  { endpoint, worker, yes, json },
  Effect.fnUntraced(function*({ endpoint, json, worker, yes }) {
    const text = `Stop worker ${Output.inline(worker)} of "${endpoint}" at once? Each of its jobs loses an attempt.`
    if (!(yield* confirm({ text, yes, json }))) return yield* Output.message("Nothing was changed.")
    const stopped = yield* call((api) => api.control.stopWorker({ params: { endpoint, worker } }))
    yield* Output.print(json, stopped, stopText)
  })
).pipe(Command.withDescription("Kill a worker at once; its jobs run again if they have attempts left"))

/** `stint workers` and its subcommands. */
export const workers = Command.make("workers").pipe(
  Command.withDescription("Workers: list them, drain one or stop one"),
  Command.withSubcommands([list, drain, stop])
)
