/**
 * Maps the errors of releases to the API's error responses.
 */
import { Conflict, InvalidRequest, problemMembers, ReleaseNotFound, type Unavailable } from "@stint/contract/Problem"
import type { CodeError } from "@stint/pool/CodeArtifacts"
import type { CanaryMissing, EndpointExists, ReleaseConflict, ReleaseMissing } from "@stint/releases/Releases"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import { excerpt } from "../http/ProblemJson.ts"
import { unavailable } from "../http/QueueProblems.ts"

const codeRefused = ({ file, hint, problem }: CodeError) =>
  new InvalidRequest(problemMembers(`${excerpt(file)} cannot be deployed: ${problem}.`, hint))

const exists = ({ endpoint }: EndpointExists) =>
  new Conflict(problemMembers(
    `The endpoint "${endpoint}" already exists.`,
    `Change it with PUT /api/v1/endpoints/${endpoint}, or choose another id.`
  ))

const conflict = ({ actual, endpoint, expected }: ReleaseConflict) =>
  new Conflict(problemMembers(
    actual === undefined
      ? `The endpoint "${endpoint}" has no release ${expected}, because it was never deployed.`
      : `The endpoint "${endpoint}" is at release ${actual.number}, not ${expected}: ${actual.createdBy} deployed it at ${
        new Date(actual.createdAt).toISOString()
      }.`,
    `Compare your change with that release (POST /api/v1/endpoints/${endpoint}/releases/preview), then deploy again.`
  ))

const missing = ({ endpoint, number }: ReleaseMissing) => {
  const list = `GET /api/v1/endpoints/${endpoint}/releases`
  return new ReleaseNotFound(
    number === undefined
      ? problemMembers(
        `The endpoint "${endpoint}" has no earlier release that was active.`,
        `Name one in \`to\`: ${list} lists them.`
      )
      : problemMembers(
        `The endpoint "${endpoint}" has no release ${number}.`,
        `${list} lists the stored ones: the last 20, and the active one.`
      )
  )
}

/** For deployments. */
export const mapDeployErrors = <A, R>(
  effect: Effect.Effect<A, CodeError | ReleaseConflict | StoreError, R>
): Effect.Effect<A, InvalidRequest | Conflict | Unavailable, R> =>
  Effect.catchTags(effect, {
    StoreError: unavailable,
    CodeError: (error) => Effect.fail(codeRefused(error)),
    ReleaseConflict: (error) => Effect.fail(conflict(error))
  })

/** For the creation of endpoints. */
export const mapCreateErrors = <A, R>(
  effect: Effect.Effect<A, CodeError | EndpointExists | StoreError, R>
): Effect.Effect<A, InvalidRequest | Conflict | Unavailable, R> =>
  Effect.catchTags(effect, {
    StoreError: unavailable,
    CodeError: (error) => Effect.fail(codeRefused(error)),
    EndpointExists: (error) => Effect.fail(exists(error))
  })

/** For previews, and for deployments that cannot conflict. */
export const mapPreviewErrors = <A, R>(
  effect: Effect.Effect<A, CodeError | StoreError, R>
): Effect.Effect<A, InvalidRequest | Unavailable, R> =>
  Effect.catchTags(effect, { StoreError: unavailable, CodeError: (error) => Effect.fail(codeRefused(error)) })

const noCanary = ({ endpoint }: CanaryMissing) =>
  new Conflict(problemMembers(
    `The endpoint "${endpoint}" has no canary.`,
    `It was promoted, it was rolled back, or another release was deployed: GET /api/v1/endpoints/${endpoint}/releases lists them.`
  ))

/** For promotions. */
export const mapPromoteErrors = <A, R>(
  effect: Effect.Effect<A, CanaryMissing | StoreError, R>
): Effect.Effect<A, Conflict | Unavailable, R> =>
  Effect.catchTags(effect, { StoreError: unavailable, CanaryMissing: (error) => Effect.fail(noCanary(error)) })

/** For operations on one stored release. */
export const mapReleaseErrors = <A, R>(
  effect: Effect.Effect<A, ReleaseMissing | StoreError, R>
): Effect.Effect<A, ReleaseNotFound | Unavailable, R> =>
  Effect.catchTags(effect, { StoreError: unavailable, ReleaseMissing: (error) => Effect.fail(missing(error)) })
