/**
 * The runs of pipelines, for callers (docs/spec/pipelines.md#callers).
 *
 * ```
 *   /v2/{endpoint}/events              POST   send an event to a run
 *   /v2/{endpoint}/steps/{id}          GET    what a run has recorded, and what it waits for
 *   /v2/{endpoint}/definitions         GET    the definitions, and how many runs follow each
 *   /v2/{endpoint}/definitions/{hash}  GET    the graph of a definition
 *   /v2/{endpoint}/compare-definition  POST   what a new definition would do to the runs
 * ```
 *
 * A run is a job, so its other operations are those of jobs. `retry` of `JobsApi` has `?from=` for runs.
 */
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { JobsAuthorization } from "../Authorization.ts"
import { Audited } from "../control/Audit.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import {
  bodyErrors,
  Conflict,
  DefinitionNotFound,
  EndpointNotFound,
  InsufficientStorage,
  InvalidRequest,
  JobNotFound,
  Unavailable
} from "../Problem.ts"
import { PipelineGraph } from "../workers/RunJournal.ts"
import { CompareDefinition, DefinitionComparison, DefinitionList } from "./Definitions.ts"
import { EventReceipt, RunSteps, SendEvent } from "./RunSteps.ts"

/** The maximum number of steps in a page. */
const STEP_PAGE_LIMIT = 1_000

const integer = (description: string, minimum: number, maximum: number) =>
  Schema.optionalKey(
    Schema.String.annotate({ description }).pipe(
      Schema.decodeTo(Schema.Int.check(Schema.isBetween({ minimum, maximum })), SchemaTransformation.numberFromString)
    )
  )

const endpoint = { endpoint: Schema.String.annotate({ description: "The pipeline's endpoint." }) }

const HASH = "6dcd4ce23d88e2ee9568ba546c007c63d9131c1b0aa7a1a0b7b3c3e5f7d1a2b4"
const RUN = "0f8fad5b-d9cb-469f-a165-70867728950e"

/** The operations on runs. */
export class RunsApi extends HttpApiGroup.make("runs")
  .add(
    HttpApiEndpoint.post("sendEvent", "/:endpoint/events", {
      params: endpoint,
      payload: SendEvent,
      success: EventReceipt,
      error: [EndpointNotFound, InvalidRequest, ...bodyErrors, InsufficientStorage, Unavailable]
    }).annotate(Audited, false).annotateMerge(operationDocs({
      summary: "Send an event to a run",
      description:
        "Delivers the event to the run that has waited longest for its `name` and `key`. When no run waits for it, it is kept for the next " +
        "run that does, for `ttlMs`. One event goes to one run. Send an `id` to repeat the call safely. Bodies up to 1 MiB. " +
        "An endpoint keeps up to 10,000 events for later runs, and 64 MiB of their data; events beyond these limits are rejected with 507.",
      request: { name: "approved", key: "order-4711", data: { by: "Ada" }, id: "approval-17" },
      responses: { 200: { delivered: RUN } }
    })),
    HttpApiEndpoint.get("steps", "/:endpoint/steps/:id", {
      params: { ...endpoint, id: Schema.String.annotate({ description: "The run's id: the id of its job." }) },
      query: {
        after: integer("Only steps after this number of steps: the `next` of the previous page.", 0, 999_999_999),
        limit: integer(`The maximum number of steps: 1 to ${STEP_PAGE_LIMIT}. Default: 200.`, 1, STEP_PAGE_LIMIT)
      },
      success: RunSteps,
      error: [EndpointNotFound, JobNotFound, InvalidRequest, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "List the steps of a run",
      description:
        "Returns what the run has recorded, in the order in which it began, and what it waits for, with the state `open`. Pass `next` as " +
        "`after` to read the next page, until it is absent. Returns 409 for a job that is not a run.",
      responses: {
        200: {
          run: RUN,
          status: "IN_PROGRESS",
          phase: "doing",
          definition: HASH,
          steps: [
            {
              path: "list",
              kind: "step",
              state: "completed",
              startedAt: 1_789_999_999_200,
              endedAt: 1_790_000_000_000,
              output: ["a.png"]
            },
            {
              path: "thumbnail[0]",
              kind: "run",
              state: "open",
              startedAt: 1_790_000_000_020,
              job: `step-${RUN}`,
              endpoint: "thumbnail"
            }
          ]
        }
      }
    })),
    HttpApiEndpoint.get("definition", "/:endpoint/definitions/:hash", {
      params: { ...endpoint, hash: Schema.String.annotate({ description: "The definition of a run, as returned by steps." }) },
      success: PipelineGraph,
      error: [EndpointNotFound, DefinitionNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Get the graph of a definition",
      description: "Returns the nodes of the pipeline that its runs with this definition follow, in the order in which they run.",
      responses: {
        200: {
          name: "gallery",
          nodes: [
            { address: "list", kind: "step" },
            { address: "thumbnail", kind: "forEach", endpoint: "thumbnail", needs: ["list"] }
          ]
        }
      }
    }))
  )
  .add(
    HttpApiEndpoint.get("definitions", "/:endpoint/definitions", {
      params: endpoint,
      success: DefinitionList,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "List the definitions of a pipeline",
      description:
        "Returns the definitions that workers have sent, newest first, each with the number of its runs that have not ended. The " +
        "list is empty for an endpoint that is not a pipeline. Counts up to 10,000 runs.",
      responses: { 200: { definitions: [{ hash: HASH, definedAt: 1_790_000_000_000, open: 12, held: 0 }] } }
    })),
    HttpApiEndpoint.post("compareDefinition", "/:endpoint/compare-definition", {
      params: endpoint,
      payload: CompareDefinition,
      success: DefinitionComparison,
      error: [EndpointNotFound, InvalidRequest, ...bodyErrors, Unavailable]
    }).annotate(Audited, false).annotateMerge(operationDocs({
      summary: "Compare a definition with the runs",
      description:
        "Returns how a new definition would affect the runs that have not ended: how many would continue, how many would wait, and because of " +
        "which nodes. Stores nothing. Compares up to 10,000 runs. Bodies up to 1 MiB.",
      request: { graph: { name: "gallery", nodes: [{ address: "list", kind: "step" }] } },
      responses: {
        200: {
          open: 12,
          continuing: 9,
          waiting: 3,
          nodes: [{
            definition: HASH,
            node: "thumbnail",
            change: "removed",
            waiting: 3,
            reason: "The run has recorded the node \"thumbnail\", which the definition of the worker does not have.",
            example: RUN
          }],
          added: []
        }
      }
    }))
  )
  .middleware(JobsAuthorization)
  .prefix("/v2")
  .annotateMerge(OpenApi.annotations({ title: "Runs", description: "Follow the runs of pipelines and send them events" }))
{}
