/**
 * The probes of the process, which require no key.
 */
import { Api } from "@stint/contract/Api"
import { problemMembers, Unavailable } from "@stint/contract/Problem"
import * as Effect from "effect/Effect"
import { HttpApiBuilder } from "effect/http-api"
import { Readiness } from "./Readiness.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "probes",
  Effect.fnUntraced(function*(handlers) {
    const readiness = yield* Readiness
    return handlers
      .handle("healthz", () => Effect.succeed({ status: "alive" as const }))
      .handle(
        "readyz",
        Effect.fnUntraced(function*() {
          const reason = yield* readiness.check
          if (reason === undefined) return { status: "ready" as const }
          return yield* new Unavailable(problemMembers(reason, "The platform's log names the cause. Ask again in a second."))
        })
      )
  })
)
