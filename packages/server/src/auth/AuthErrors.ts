/**
 * Authentication errors. Each message states what was requested, what the key allows, which platform responded, and what to do.
 *
 * Naming the platform matters because a 401 or 403 is easily confused with one from another platform, or with a 404 from the wrong host.
 * An error never repeats the key, and reveals nothing about a key to callers who do not have it.
 */
import type { KeyEndpoints, KeyScope } from "@stint/contract/AccessKey"
import { Forbidden, problemMembers, Unauthorized } from "@stint/contract/Problem"
import type { HttpServerRequest } from "effect/http"
import { excerpt } from "../http/ProblemJson.ts"
import type { Caller, KeyLookup } from "./AccessKeys.ts"

/** Places where clients of other platforms send their key. */
const KEY_HEADERS = ["x-api-key", "api-key", "apikey", "x-api-token", "x-auth-token", "x-access-token"]
const KEY_QUERIES = /^(?:api[-_]?key|key|token|access[-_]?token|auth|authorization)$/i

const SEND_KEY = "Send the header `Authorization: Bearer KEY`."

/** Names this platform, because callers often send a key that belongs to another platform. */
const thisIs = (baseUrl: string): string => `This is ${baseUrl}; keys of other platforms do not work here.`

const misplaced = ({ headers, url }: HttpServerRequest.HttpServerRequest): string | undefined => {
  const header = KEY_HEADERS.find((name) => headers[name] !== undefined)
  if (header !== undefined) return `The header \`${header}\` holds a key, but the server does not read that header.`
  const at = url.indexOf("?")
  const query = at === -1 ? undefined : [...new URLSearchParams(url.slice(at + 1)).keys()].find((name) => KEY_QUERIES.test(name))
  return query === undefined
    ? undefined
    : `The URL contains a key (\`${query}\`), but the server does not read keys from URLs because URLs end up in logs. Create a new key if this one matters.`
}

/** 401: the request has no key. */
export const missingKey = (baseUrl: string, request: HttpServerRequest.HttpServerRequest): Unauthorized => {
  const where = misplaced(request)
  return new Unauthorized(problemMembers(
    "The request has no key.",
    [
      ...(where === undefined ? [] : [where]),
      SEND_KEY,
      `This is ${baseUrl}. The platform says at startup where its API key is; the CLI reads it there, or from STINT_API_KEY.`
    ].join(" ")
  ))
}

/** 401: the key is unknown. `wanted` describes the key that the call requires. */
export const unknownKey = (baseUrl: string, header: string, wanted: string): Unauthorized => {
  const scheme = /^(basic|digest|token|apikey)\s/i.exec(header)?.[1]
  return new Unauthorized(problemMembers(
    "The platform does not know this key.",
    [
      ...(scheme === undefined ? [] : [`The scheme \`${scheme}\` is not supported.`, SEND_KEY]),
      thisIs(baseUrl),
      `Use ${wanted}. Check that STINT_API_KEY and the URL belong to the same platform.`
    ].join(" ")
  ))
}

const reasons = {
  revoked: { what: "was revoked", hint: "Ask the platform's operator for a new key: `stint keys create NAME`." },
  expired: { what: "expired", hint: "Ask the platform's operator for a new key: `stint keys create NAME`." },
  rotated: {
    what: "was rotated, and the secret in this request expired",
    hint: "Use the secret that `stint keys rotate` printed, or rotate the key again."
  }
} as const

/** 401: the key is no longer valid. Only callers who have the key get this error. */
export const inactiveKey = (
  baseUrl: string,
  { at, key, why }: Extract<KeyLookup, { readonly _tag: "Inactive" }>
): Unauthorized => {
  const { hint, what } = reasons[why]
  return new Unauthorized(problemMembers(
    `The key "${key.name}" (${key.id}) ${what} on ${new Date(at).toISOString()}.`,
    `${hint} This is ${baseUrl}.`
  ))
}

const endpointsInWords = (endpoints: KeyEndpoints | ReadonlyArray<string>): string => {
  if (endpoints === "all") return "every endpoint"
  const listed = endpoints.slice(0, 10).map((endpoint) => `"${endpoint}"`).join(", ")
  const more = endpoints.length - 10
  return `${endpoints.length === 1 ? "the endpoint" : "the endpoints"} ${listed}${more > 0 ? ` and ${more} more` : ""}`
}

const scopesInWords = (scopes: ReadonlyArray<KeyScope>) =>
  `${scopes.length === 1 ? "the scope" : "the scopes"} ${scopes.map((scope) => `"${scope}"`).join(" and ")}`

/** `The key "ci" (0123456789abcdef, with the scope "jobs")`, or `The platform's API key`. */
const named = ({ id, name, scopes }: Caller): string => {
  const text = id === "platform" ? name : `${name} (${id}, with ${scopesInWords(scopes)})`
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** 403: the key lacks the scope. */
export const wrongScope = (baseUrl: string, caller: Caller, surface: string, wanted: KeyScope, hint: string): Forbidden =>
  new Forbidden(problemMembers(
    `${named(caller)} cannot use the ${surface}, which requires the scope "${wanted}".`,
    `${hint} This is ${baseUrl}.`
  ))

/** 403: the key is not valid for all endpoints. */
export const notAllEndpoints = (baseUrl: string, caller: Caller, surface: string): Forbidden =>
  new Forbidden(problemMembers(
    `${named(caller)} cannot use ${surface}, which contains figures of all endpoints: the key is valid for ${
      endpointsInWords(caller.endpoints)
    }.`,
    `Use a key for all endpoints. This is ${baseUrl}.`
  ))

/** 403: the key is not valid for this endpoint. */
export const wrongEndpoint = (baseUrl: string, caller: Caller, endpoint: string): Forbidden =>
  new Forbidden(problemMembers(
    `${named(caller)} is valid for ${endpointsInWords(caller.endpoints)}, not for "${excerpt(endpoint)}".`,
    `Check the endpoint in the URL, or add the endpoint to the key: PATCH /api/v1/keys/${caller.id}. This is ${baseUrl}.`
  ))
