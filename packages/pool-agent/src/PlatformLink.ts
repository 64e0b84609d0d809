/**
 * An agent's calls to its platform.
 */
import type { AgentChanges, AgentCode, AgentOrders, AgentReport } from "@stint/contract/Agent"
import { Api } from "@stint/contract/Api"
import * as Effect from "effect/Effect"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"

/** A call failed. */
export class LinkError extends Schema.TaggedError<LinkError>()("LinkError", {
  /**
   * `unreachable`: no response, or the platform cannot handle the call now. `conflict`: the epoch is over, or the platform does not admit the agent.
   * `rejected`: the token or the address is wrong.
   */
  kind: Schema.Literals(["unreachable", "conflict", "rejected"]),
  /** As a sentence. */
  problem: Schema.String,
  /** The remedy, as a sentence. */
  hint: Schema.String
}) {}

export interface PlatformLink {
  readonly report: (report: AgentReport) => Effect.Effect<AgentOrders, LinkError>
  readonly changes: (epoch: string, revision: number) => Effect.Effect<AgentChanges, LinkError>
  readonly code: (hash: string) => Effect.Effect<AgentCode, LinkError>
}

/** How long a report may take. Short enough to repeat two lost reports within a lease. */
export const CALL_LIMIT = "2500 millis"

/** Longer than the platform waits in `changes`. */
const CHANGES_LIMIT = "8 seconds"

/** Code may be several megabytes in size. */
const CODE_LIMIT = "2 minutes"

const isProblem = Schema.is(Schema.Struct({ status: Schema.Int, error: Schema.String, hint: Schema.String }))

const errorOf = (url: string) => (error: unknown): LinkError => {
  if (error instanceof LinkError) return error
  if (isProblem(error)) {
    const kind = error.status === 409
      ? "conflict"
      : error.status >= 400 && error.status < 500 && error.status !== 429
      ? "rejected"
      : "unreachable"
    return new LinkError({ kind, problem: error.error, hint: error.hint })
  }
  if (Predicate.isTagged(error, "HttpClientError") || Predicate.isTagged(error, "TimeoutError")) {
    return new LinkError({
      kind: "unreachable",
      problem: `The platform at ${url} does not answer.`,
      hint: "Check that it runs, and that this machine can reach the address."
    })
  }
  return new LinkError({
    kind: "unreachable",
    problem: `The platform at ${url} sent a response that this version does not understand.`,
    hint: "Check that the address belongs to a Stint platform, and install the same version of stint on both machines."
  })
}

/** Calls over HTTP. `url` has no trailing slash. */
export const http = Effect.fnUntraced(function*(
  { name, token, url }: { readonly url: string; readonly name: string; readonly token: Redacted.Redacted }
): Effect.fn.Return<PlatformLink> {
  const { agentCalls } = yield* HttpApiClient.make(Api, {
    baseUrl: url,
    transformClient: (client) =>
      client.pipe(
        HttpClient.mapRequest(HttpClientRequest.setHeader("authorization", `Bearer ${Redacted.value(token)}`)),
        HttpClient.transformResponse(Effect.provideService(HttpClient.TracerPropagationEnabled, false))
      )
  }).pipe(Effect.provide(FetchHttpClient.layer))
  const toError = errorOf(url)
  const params = { agent: name }
  return {
    report: (report) => Effect.mapError(Effect.timeout(agentCalls.reportAgent({ params, payload: report }), CALL_LIMIT), toError),
    changes: (epoch, revision) =>
      Effect.mapError(
        Effect.timeout(agentCalls.awaitChanges({ params, query: { epoch, revision: String(revision) } }), CHANGES_LIMIT),
        toError
      ),
    code: (hash) => Effect.mapError(Effect.timeout(agentCalls.getAgentCode({ params: { ...params, hash } }), CODE_LIMIT), toError)
  }
})
