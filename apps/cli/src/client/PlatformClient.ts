/**
 * The CLI's client. It makes typed calls to all three APIs and turns failures into messages.
 */
import { Api } from "@stint/contract/Api"
import { fieldIssues, formatFieldIssue } from "@stint/contract/SchemaIssues"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { CliFailure } from "../CliFailure.ts"
import * as AdminKey from "../config/AdminKey.ts"
import * as PlatformConfig from "../config/PlatformConfig.ts"

export class PlatformClient extends Context.Service<PlatformClient, {
  readonly url: string
  readonly api: HttpApiClient.ForApi<typeof Api>
}>()("@stint/cli/PlatformClient") {}

/** The error of a command that has no key. */
export const keyMissing = new CliFailure({
  message: "No API key.",
  hint:
    "Run this command in the folder that contains the platform's data folder, as the user who started it, or set STINT_API_KEY. If the " +
    "key is lost: stint keys rotate admin",
  code: "no-key"
})

/** Connects to `STINT_URL` with `STINT_API_KEY`, or to the platform on this machine with the operator's copy of its key. */
export const layer = Layer.effect(
  PlatformClient,
  Effect.gen(function*() {
    const url = yield* PlatformConfig.clientUrl
    const key = yield* AdminKey.find(yield* PlatformConfig.load)
    if (Option.isNone(key)) {
      return yield* keyMissing
    }
    const api = yield* HttpApiClient.make(Api, {
      baseUrl: url,
      transformClient: (client) =>
        client.pipe(
          HttpClient.mapRequest(HttpClientRequest.setHeader("authorization", `Bearer ${Redacted.value(key.value)}`)),
          // The command exports no spans, so a `traceparent` would name a span that does not exist.
          HttpClient.transformResponse(Effect.provideService(HttpClient.TracerPropagationEnabled, false)),
          HttpClient.tapRequest(() => Effect.map(Attempt, (attempt) => (attempt.isSent = true)))
        )
    })
    return PlatformClient.of({ url, api })
  })
).pipe(Layer.provide(FetchHttpClient.layer))

const Problem = Schema.Struct({
  type: Schema.optionalKey(Schema.String),
  status: Schema.optionalKey(Schema.Int),
  errors: Schema.optionalKey(CliFailure.fields.issues.schema)
})

const decodeProblem = Schema.decodeUnknownOption(Problem)

/** The members of a problem that programs read: `/problems/job-not-found` becomes the code `job-not-found`. */
const problemOf = (error: object) => {
  const { errors, status, type } = Option.getOrElse(decodeProblem(error), (): typeof Problem.Type => ({}))
  return {
    ...(type === undefined ? {} : { code: type.slice(type.lastIndexOf("/") + 1) }),
    ...(status === undefined ? {} : { status }),
    ...(errors === undefined ? {} : { issues: errors })
  }
}

/** Whether a call has sent its request. If not, its arguments do not match the contract. */
const Attempt = Context.Reference<{ isSent: boolean }>("@stint/cli/Attempt", { defaultValue: () => ({ isSent: false }) })

/** Fails with the message of a failed call: the platform's error and hint, the connection error, or what is wrong with an argument. */
const explain = (url: string, attempt: { readonly isSent: boolean }) =>
<A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, CliFailure, R> =>
  Effect.mapError(effect, (error) => {
    if (error instanceof CliFailure) return error
    if (Predicate.hasProperty(error, "error") && Predicate.isString(error.error)) {
      const hint = Predicate.hasProperty(error, "hint") && Predicate.isString(error.hint) ? error.hint : ""
      return new CliFailure({ message: error.error, hint, ...problemOf(error) })
    }
    if (Predicate.isTagged(error, "HttpClientError")) {
      return new CliFailure({
        message: `The platform at ${url} does not answer.`,
        hint: "Start it with `stint serve`, or set STINT_URL to its address.",
        code: "unreachable"
      })
    }
    if (!attempt.isSent && Schema.isSchemaError(error)) {
      return new CliFailure({
        message: `The command cannot be sent. ${fieldIssues(error).map(formatFieldIssue).join("; ")}`,
        hint: "Correct this option or argument.",
        code: "invalid-option"
      })
    }
    return new CliFailure({
      message: `The platform at ${url} sent an invalid response: ${String(error)}`,
      hint: "",
      code: "invalid-response"
    })
  })

/** Calls the platform. */
export const call = Effect.fnUntraced(function*<A, E, R>(
  use: (api: PlatformClient["Service"]["api"]) => Effect.Effect<A, E, R>
) {
  const { api, url } = yield* PlatformClient
  const attempt = { isSent: false }
  return yield* explain(url, attempt)(Effect.provideService(use(api), Attempt, attempt))
})
