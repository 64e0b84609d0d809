/**
 * The guards of the three surfaces.
 *
 * A refusal says which kind of key is wanted and for which endpoint, because 401 and 404 are easily confused (users.md, pain 26). It
 * never repeats the key.
 */
import { ControlAuthorization, JobsAuthorization, WorkerAuthorization } from "@stint/contract/Authorization"
import { explain, Forbidden, Unauthorized } from "@stint/contract/Problem"
import * as Effect from "effect/Effect"
import { HttpRouter } from "effect/http"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { AccessKeys } from "./AccessKeys.ts"
import { Limits } from "./Limits.ts"
import { excerpt } from "./ProblemText.ts"

/** The key in an `Authorization` header: what follows `Bearer`, or all of it. */
const keyOf = (credential: Redacted.Redacted): Redacted.Redacted =>
  Redacted.make(Redacted.value(credential).replace(/^bearer\s+/i, "").trim())

const isMissing = (key: Redacted.Redacted): boolean => Redacted.value(key) === ""

const noKey = new Unauthorized(explain(
  "The request carries no key.",
  "Send the header `Authorization: Bearer KEY`. The platform prints its key when it starts; the CLI reads it from STINT_API_KEY."
))

const unknownKey = (wanted: string) =>
  new Unauthorized(explain(
    "The platform does not know this key.",
    `Use ${wanted}. The platform prints its API key when it starts; check that STINT_API_KEY and the address belong to the same platform.`
  ))

const adminOnly = (surface: string) =>
  Effect.map(AccessKeys, (keys) => ({
    key: Effect.fnUntraced(function*<A, E, R>(
      respond: Effect.Effect<A, E, R>,
      { credential }: { readonly credential: Redacted.Redacted }
    ) {
      const key = keyOf(credential)
      if (keys.isAdmin(key)) return yield* respond
      if (isMissing(key)) return yield* noKey
      if (keys.looksLikeWorkerKey(key)) {
        return yield* new Forbidden(explain(
          `A worker's key does not open the ${surface}.`,
          "Use the platform's API key here. A worker's key is for job-take, job-done, job-stream, job-stop and ping of its own endpoint."
        ))
      }
      return yield* unknownKey("the platform's API key")
    })
  }))

const layerJobs: Layer.Layer<JobsAuthorization, never, AccessKeys> = Layer.effect(
  JobsAuthorization,
  adminOnly("jobs API")
)

const layerControl: Layer.Layer<ControlAuthorization, never, AccessKeys> = Layer.effect(
  ControlAuthorization,
  adminOnly("control API")
)

const layerWorker: Layer.Layer<WorkerAuthorization, never, AccessKeys> = Layer.effect(
  WorkerAuthorization,
  Effect.map(Effect.all({ keys: AccessKeys, limits: Limits }), ({ keys, limits }) => ({
    key: Effect.fnUntraced(function*(respond, { credential }) {
      const refuse = <E>(error: E) => Effect.delay(Effect.fail(error), limits.refusalWaitMs)
      const key = keyOf(credential)
      const { endpoint = "" } = yield* HttpRouter.params
      const name = excerpt(endpoint)
      if (keys.isWorkerOf(endpoint, key)) return yield* respond
      if (isMissing(key)) return yield* refuse(noKey)
      if (keys.looksLikeWorkerKey(key) || keys.isAdmin(key)) {
        return yield* refuse(
          new Forbidden(explain(
            `This key is not a worker key of the endpoint "${name}".`,
            `Give the worker the variables that \`stint worker-env ${name}\` prints. Each endpoint has a worker key of its own.`
          ))
        )
      }
      return yield* refuse(unknownKey(`the worker key of the endpoint "${name}" (\`stint worker-env ${name}\`)`))
    })
  }))
)

/** All three guards. */
export const layer: Layer.Layer<JobsAuthorization | ControlAuthorization | WorkerAuthorization, never, AccessKeys> = Layer
  .mergeAll(layerJobs, layerControl, layerWorker)
