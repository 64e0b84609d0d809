/**
 * Why a key was refused, in words: what was asked for, what the key opens, which platform this is, and the way out.
 *
 * 401 and 403 of such platforms are easily taken for one another, and for a 404 of the wrong host. A refusal never
 * repeats the key, and says nothing about a key to somebody who does not hold it.
 */
import type { KeyEndpoints, KeyScope } from "@stint/contract/AccessKey"
import { Forbidden, problemMembers, Unauthorized } from "@stint/contract/Problem"
import type { HttpServerRequest } from "effect/http"
import { excerpt } from "../http/ProblemJson.ts"
import type { Caller, KeyLookup } from "./AccessKeys.ts"

/** Where else clients of other platforms put their key. */
const KEY_HEADERS = ["x-api-key", "api-key", "apikey", "x-api-token", "x-auth-token", "x-access-token"]
const KEY_QUERIES = /^(?:api[-_]?key|key|token|access[-_]?token|auth|authorization)$/i

const HOW = "Send the header `Authorization: Bearer KEY`."

/** Which platform was asked: keys of another one are the usual mistake. */
const thisIs = (baseUrl: string): string => `This is ${baseUrl}; keys of other platforms do not work here.`

const misplaced = ({ headers, url }: HttpServerRequest.HttpServerRequest): string | undefined => {
  const header = KEY_HEADERS.find((name) => headers[name] !== undefined)
  if (header !== undefined) return `There is a key in the header \`${header}\`, which is not read.`
  const at = url.indexOf("?")
  const query = at === -1 ? undefined : [...new URLSearchParams(url.slice(at + 1)).keys()].find((name) => KEY_QUERIES.test(name))
  return query === undefined
    ? undefined
    : `There is a key in the address (\`${query}\`), which is not read: addresses end up in logs. Make another key if this one matters.`
}

/** 401: no key came. */
export const missingKey = (baseUrl: string, request: HttpServerRequest.HttpServerRequest): Unauthorized => {
  const where = misplaced(request)
  return new Unauthorized(problemMembers(
    "The request carries no key.",
    [
      ...(where === undefined ? [] : [where]),
      HOW,
      `This is ${baseUrl}; it prints its API key when it starts, and the CLI reads it from STINT_API_KEY.`
    ].join(" ")
  ))
}

/** 401: nobody knows the key. `wanted` is what should have come. */
export const unknownKey = (baseUrl: string, header: string, wanted: string): Unauthorized => {
  const scheme = /^(basic|digest|token|apikey)\s/i.exec(header)?.[1]
  return new Unauthorized(problemMembers(
    "The platform does not know this key.",
    [
      ...(scheme === undefined ? [] : [`The scheme \`${scheme}\` is not read.`, HOW]),
      thisIs(baseUrl),
      `Use ${wanted}. Check that STINT_API_KEY and the address belong to the same platform.`
    ].join(" ")
  ))
}

const reasons = {
  revoked: { what: "was revoked", way: "Ask the platform's operator for another key: `stint keys create NAME`." },
  expired: { what: "expired", way: "Ask the platform's operator for another key: `stint keys create NAME`." },
  rotated: {
    what: "has another secret by now; this one ended",
    way: "Use the secret that `stint keys rotate` printed, or rotate the key again."
  }
} as const

/** 401: the key was good once. Only whoever holds it learns why it is not any more. */
export const inactiveKey = (baseUrl: string, { at, key, why }: Extract<KeyLookup, { readonly _tag: "Ended" }>): Unauthorized => {
  const { way, what } = reasons[why]
  return new Unauthorized(problemMembers(
    `The key "${key.name}" (${key.id}) ${what} on ${new Date(at).toISOString()}.`,
    `${way} This is ${baseUrl}.`
  ))
}

const endpointsInWords = (endpoints: KeyEndpoints | ReadonlyArray<string>): string => {
  if (endpoints === "all") return "every endpoint"
  const shown = endpoints.slice(0, 10).map((endpoint) => `"${endpoint}"`).join(", ")
  const more = endpoints.length - 10
  return `${endpoints.length === 1 ? "the endpoint" : "the endpoints"} ${shown}${more > 0 ? ` and ${more} more` : ""}`
}

const list = (scopes: ReadonlyArray<KeyScope>) =>
  `${scopes.length === 1 ? "the scope" : "the scopes"} ${scopes.map((scope) => `"${scope}"`).join(" and ")}`

/** `The key "ci" (0123456789abcdef)`, or `The platform's API key`. */
const named = ({ id, name, scopes }: Caller): string => {
  const text = id === "platform" ? name : `${name} (${id}, with ${list(scopes)})`
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** 403: the key is for another kind of call. */
export const wrongScope = (baseUrl: string, caller: Caller, surface: string, wanted: KeyScope, hint: string): Forbidden =>
  new Forbidden(problemMembers(
    `${named(caller)} does not open the ${surface}: that needs the scope "${wanted}".`,
    `${hint} This is ${baseUrl}.`
  ))

/** 403: the key is for other endpoints. */
export const wrongEndpoint = (baseUrl: string, caller: Caller, endpoint: string): Forbidden =>
  new Forbidden(problemMembers(
    `${named(caller)} opens ${endpointsInWords(caller.endpoints)}, not "${excerpt(endpoint)}".`,
    `Check the endpoint in the address, or have the key opened for it: PATCH /api/v1/keys/${caller.id}. This is ${baseUrl}.`
  ))
