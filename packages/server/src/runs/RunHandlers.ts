/**
 * The operations on runs for callers (docs/spec/pipelines.md#callers).
 */
import { Api } from "@stint/contract/Api"
import { CurrentEndpoint } from "@stint/contract/Authorization"
import { CompareDefinition } from "@stint/contract/Definitions"
import type { Endpoint } from "@stint/contract/Endpoint"
import { jsonNull } from "@stint/contract/Json"
import { DefinitionNotFound, problemMembers } from "@stint/contract/Problem"
import { PipelineGraph } from "@stint/contract/RunJournal"
import { DEFAULT_EVENT_MILLIS, SendEvent } from "@stint/contract/RunSteps"
import { JobQueue } from "@stint/queue/JobQueue"
import { RunQueue, TooManyEvents } from "@stint/queue/RunQueue"
import * as Effect from "effect/Effect"
import { HttpApiBuilder } from "effect/http-api"
import * as Schema from "effect/Schema"
import { json, trackedJson } from "../http/JsonResponse.ts"
import { Limits, remedyFor } from "../http/Limits.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { mapLookupErrors, mapStoreErrors } from "../http/QueueProblems.ts"
import { decoder, memberValues, readJson } from "../http/RequestBody.ts"
import * as OpenRuns from "./OpenRuns.ts"
import { notARun, tooManyEvents } from "./RunProblems.ts"
import { collector } from "./StepList.ts"

const EVENT_HINT =
  "Send {\"name\": \"approved\", \"key\": \"order-4711\", \"data\": {\"by\": \"Ada\"}}. Only \"name\" is required."

const EVENT = { members: new Set(Object.keys(SendEvent.fields)) }

const DATA: ReadonlySet<string> = new Set(["data"])

/** The data is stored as text, so it is not decoded. */
const decodeEvent = decoder(Schema.Struct({ ...SendEvent.fields, data: Schema.optionalKey(Schema.Unknown) }), EVENT_HINT)

const GRAPH_HINT = "Send {\"graph\": {\"name\": \"gallery\", \"nodes\": [{\"address\": \"list\", \"kind\": \"step\"}]}}."

const COMPARISON = { members: new Set(Object.keys(CompareDefinition.fields)) }

const decodeComparison = decoder(CompareDefinition, GRAPH_HINT)

const decodeGraph = Schema.decodeUnknownSync(Schema.fromJsonString(PipelineGraph))

const DEFAULT_STEPS = 200

/** The number of entries that are read at a time. */
const READ = 100

const definitionNotFound = (hash: string, { id }: Endpoint) =>
  new DefinitionNotFound(problemMembers(
    `The endpoint "${excerpt(id)}" has no pipeline with the definition "${excerpt(hash)}".`,
    `Read the definition of a run with GET /v2/${excerpt(id)}/steps/RUN. The platform knows it once a worker has started the run.`
  ))

/** The handlers of runs. */
export const layer = HttpApiBuilder.group(
  Api,
  "runs",
  Effect.fnUntraced(function*(handlers) {
    const runs = yield* RunQueue
    const jobs = yield* JobQueue
    const limits = yield* Limits
    const remedy = remedyFor("Put the data in an object store and send its URL.", "STINT_LIMIT_CHUNK", false, limits)

    const graphRemedy = remedyFor(
      "The graph of a pipeline is never this large. Check the body.",
      "STINT_LIMIT_CHUNK",
      false,
      limits
    )

    const graphOf = Effect.fnUntraced(function*({ id }: Endpoint, hash: string) {
      const text = yield* mapStoreErrors(runs.definition(id, hash))
      return text === undefined ? undefined : decodeGraph(text)
    })

    const find = Effect.fnUntraced(function*(endpoint: Endpoint, id: string) {
      const found = yield* mapStoreErrors(
        Effect.catchTag(runs.get(endpoint.id, id), "JobMissing", () => Effect.succeed(undefined))
      )
      if (found !== undefined) return found
      // A job without a journal gets a different error than an unknown job.
      yield* mapLookupErrors(jobs.get(endpoint.id, id))
      return yield* notARun(id, endpoint.id)
    })

    return handlers
      .handleRaw(
        "sendEvent",
        Effect.fnUntraced(function*({ request }) {
          const endpoint = yield* CurrentEndpoint
          const body = yield* readJson(request, limits.chunkBytes, remedy, EVENT_HINT, EVENT)
          const values = yield* memberValues(body, EVENT_HINT, DATA)
          const { id, key = "", name, ttlMs = DEFAULT_EVENT_MILLIS } = yield* decodeEvent(values)
          const event = { name, key, body: body.members.get("data")?.text ?? jsonNull, id: id ?? null, ttlMs }
          const sent = yield* mapStoreErrors(
            Effect.catchTag(runs.send(endpoint.id, event), "TooManyEvents", (error) => Effect.succeed(error))
          )
          if (sent instanceof TooManyEvents) return yield* tooManyEvents(sent)
          const { isDuplicate, run } = sent
          return json(`{"delivered":${JSON.stringify(run)}${isDuplicate ? ",\"duplicate\":true" : ""}}`)
        })
      )
      .handleRaw(
        "steps",
        Effect.fnUntraced(function*({ params, query }) {
          const endpoint = yield* CurrentEndpoint
          const { job, run } = yield* find(endpoint, params.id)
          const { add, page } = collector(endpoint, query.after ?? 0, query.limit ?? DEFAULT_STEPS)
          let last = 0
          while (true) {
            const entries = yield* mapStoreErrors(runs.entries(endpoint.id, job.id, last, READ))
            for (const entry of entries) add(entry)
            last = entries.at(-1)?.n ?? last
            if (entries.length < READ) break
          }
          const { definition, held, phase } = run
          const { next, steps } = page(job.status, yield* graphOf(endpoint, definition))
          const head = JSON.stringify({ run: job.id, status: job.status, phase, definition, ...(held === null ? {} : { held }) })
          return yield* trackedJson(
            `${head.slice(0, -1)},"steps":[${steps.join(",")}]${next === undefined ? "" : `,"next":${next}`}}`
          )
        })
      )
      .handleRaw(
        "definitions",
        Effect.fnUntraced(function*() {
          const { id } = yield* CurrentEndpoint
          return yield* trackedJson(JSON.stringify(yield* mapStoreErrors(OpenRuns.list(runs, id))))
        })
      )
      .handleRaw(
        "compareDefinition",
        Effect.fnUntraced(function*({ request }) {
          const { id } = yield* CurrentEndpoint
          const body = yield* readJson(request, limits.chunkBytes, graphRemedy, GRAPH_HINT, COMPARISON)
          const { graph } = yield* decodeComparison(yield* memberValues(body, GRAPH_HINT))
          return yield* trackedJson(JSON.stringify(yield* mapStoreErrors(OpenRuns.compare(runs, id, graph))))
        })
      )
      .handleRaw(
        "definition",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* CurrentEndpoint
          const graph = yield* mapStoreErrors(runs.definition(endpoint.id, params.hash))
          return graph === undefined ? yield* definitionNotFound(params.hash, endpoint) : yield* trackedJson(graph)
        })
      )
  })
)
