/**
 * The control API for the cache of models.
 */
import { Api } from "@stint/contract/Api"
import { ModelDownload, ModelId, modelParts, ModelPull } from "@stint/contract/Model"
import { Conflict, InvalidRequest, ModelNotFound, problemMembers, Unavailable } from "@stint/contract/Problem"
import { Models, type ModelsRefused } from "@stint/models/Models"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as Effect from "effect/Effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Schema from "effect/Schema"
import { auditTarget } from "../audit/AuditMiddleware.ts"
import { Limits } from "../http/Limits.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { mapStoreErrors } from "../http/QueueProblems.ts"
import { decoder, parseJson, readText } from "../http/RequestBody.ts"

const pullHint =
  "Send a JSON object like {\"model\": \"openai/whisper-large-v3\"}, for private models with \"token\": the name of a secret."

// Otherwise, a misspelled `token` would only fail later, at the hub.
const decodePull = decoder(ModelPull, pullHint, { unknown: "error" })
const encodeDownload = Schema.encodeSync(ModelDownload)

const isId = Schema.is(ModelId)

const unavailable = ({ hint, message }: ModelsRefused) => new Unavailable(problemMembers(message, hint))

const toRemovalProblem = (error: ModelsRefused) => {
  const members = problemMembers(error.message, error.hint)
  switch (error.kind) {
    case "busy":
      return new Conflict(members)
    case "missing":
      return new ModelNotFound(members)
    case "none":
      return new Unavailable(members)
  }
}

export const layer = HttpApiBuilder.group(
  Api,
  "models",
  Effect.fnUntraced(function*(handlers) {
    const models = yield* Models
    const endpoints = yield* EndpointStore
    const limits = yield* Limits

    return handlers
      .handle(
        "listModels",
        Effect.fnUntraced(function*() {
          const cache = yield* Effect.mapError(models.list, unavailable)
          const users = (yield* mapStoreErrors(endpoints.list)).flatMap(({ id, model }) =>
            model === undefined ? [] : [{ endpoint: id, ...modelParts(model) }]
          )
          return {
            ...cache,
            models: cache.models.map((one) => ({
              ...one,
              endpoints: users.flatMap(({ endpoint, id, revision }) =>
                id === one.model && (revision === one.commit || one.revisions.includes(revision)) ? [endpoint] : []
              )
            }))
          }
        })
      )
      .handleRaw(
        "pullModel",
        Effect.fnUntraced(function*({ request }) {
          const text = yield* readText(request, limits.controlBytes, "Send only the model and the name of a secret.")
          const { model, token } = yield* Effect.flatMap(parseJson(text, pullHint), decodePull)
          const { id, revision } = modelParts(model)
          yield* auditTarget("model", id)
          if (model !== id) yield* auditTarget("revision", revision)
          const download = yield* Effect.mapError(models.pull(model, token), unavailable)
          return HttpServerResponse.jsonUnsafe(encodeDownload(download), { status: 202 })
        })
      )
      .handle(
        "removeModel",
        Effect.fnUntraced(function*({ params }) {
          const id = `${params.owner}/${params.name}`
          if (!isId(id)) {
            return yield* new InvalidRequest(
              problemMembers(
                `"${excerpt(id)}" is not a model's id.`,
                "Send an id without a revision, for example openai/whisper-large-v3."
              )
            )
          }
          return { freedBytes: yield* Effect.mapError(models.remove(id), toRemovalProblem) }
        })
      )
  })
)
