/**
 * The text query of a request: its errors, and the endpoints that it covers.
 */
import type { KeyEndpoints } from "@stint/contract/AccessKey"
import type { Endpoint } from "@stint/contract/Endpoint"
import type { EndpointId } from "@stint/contract/Ids"
import { type JobSearch, parseSearch } from "@stint/contract/JobSearch"
import { type EndpointNotFound, Forbidden, InvalidRequest, problemMembers, type Unavailable } from "@stint/contract/Problem"
import { coversEndpoint, namedEndpoints } from "@stint/contract/SearchMatch"
import type { Found, ListOptions, ListResult, SearchOptions } from "@stint/queue/JobQueue"
import { cursorOf, cursorText } from "@stint/queue/JobSearches"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { excerpt } from "../http/ProblemJson.ts"
import { endpointFinder, mapListErrors, mapStoreErrors } from "../http/QueueProblems.ts"

/** The maximum number of endpoints that one query searches. Each is a separate index range. */
const MAX_ENDPOINTS = 100

/** 400 for a query. `message` names what is wrong. */
const invalidQuery = (message: string, hint: string, position?: number): InvalidRequest =>
  new InvalidRequest({
    ...problemMembers(
      `${position === undefined ? "The query cannot be used" : `The query is wrong at character ${position + 1}`}: ${
        excerpt(message)
      }`,
      hint
    ),
    errors: [{ path: ["query"], message: excerpt(message) }]
  })

/** Parses the query of a request. */
export const parsedQuery = (text: string): Effect.Effect<JobSearch, InvalidRequest> => {
  const { problem, search } = parseSearch(text)
  return search === undefined
    ? Effect.fail(invalidQuery(problem.message, problem.hint, problem.position))
    : Effect.succeed(search)
}

/** Finds a query's endpoints: the named ones if every alternative names some, otherwise all that the key permits. Leaves out excluded ones. */
export const searchedEndpoints = Effect.map(
  Effect.all({ endpoints: EndpointStore, findEndpoint: endpointFinder }),
  ({ endpoints, findEndpoint }) =>
    Effect.fnUntraced(function*(
      search: JobSearch,
      permitted: KeyEndpoints | ReadonlyArray<string>
    ): Effect.fn.Return<ReadonlyArray<Endpoint>, EndpointNotFound | Forbidden | InvalidRequest | Unavailable> {
      const isPermitted = (id: string) => permitted === "all" || permitted.some((one) => one === id)
      const mentioned = [...new Set(search.any.flatMap(({ endpoint }) => endpoint))]
      const other = mentioned.find((id) => !isPermitted(id))
      if (other !== undefined) {
        return yield* new Forbidden(problemMembers(
          `This key is not valid for the endpoint "${excerpt(other)}", which the query names.`,
          "Remove the term, or use a key that is valid for the endpoint."
        ))
      }
      const known = yield* Effect.forEach(mentioned, (id) => findEndpoint(id, permitted === "all"))
      const possible = namedEndpoints(search) === undefined
        ? (yield* mapStoreErrors(endpoints.list)).filter(({ id }) => isPermitted(id))
        : known
      // An endpoint that is only excluded is not looked up: the response must not reveal whether it exists.
      const found = possible.filter(({ id }) => search.any.some((terms) => coversEndpoint(terms, id)))
      if (found.length > MAX_ENDPOINTS) {
        return yield* invalidQuery(
          `it would search ${found.length} endpoints, and at most ${MAX_ENDPOINTS} can be searched at once.`,
          "Name the endpoints: endpoint:NAME, once for each."
        )
      }
      return found
    })
)

/** `GET /v2/{endpoint}/requests?query=`. */
export const searchEndpoint = Effect.fnUntraced(function*(
  queue: { readonly search: (options: SearchOptions) => Effect.Effect<Found, StoreError> },
  endpoint: EndpointId,
  { createdAfter, createdBefore, cursor, limit, query, status, tag }: ListOptions & { readonly query: string }
): Effect.fn.Return<ListResult, InvalidRequest | Unavailable> {
  if ([createdAfter, createdBefore, status, tag].some((one) => one !== undefined)) {
    return yield* invalidQuery(
      "it is combined with other filters.",
      "Write them as terms of the query: status:failed tag:nightly since:2026-11-22 before:2026-11-23."
    )
  }
  const search = yield* parsedQuery(query)
  if (search.any.some((terms) => terms.endpoint.some((id) => id !== endpoint))) {
    return yield* invalidQuery(
      `it names a different endpoint than the URL, which names "${endpoint}".`,
      "Remove the term, or search several endpoints: GET /api/v1/jobs?query=..."
    )
  }
  const after = yield* mapListErrors(cursorOf(cursor))
  const now = yield* Clock.currentTimeMillis
  const { jobs, next } = yield* mapStoreErrors(queue.search({ endpoints: [endpoint], search, now, limit, after }))
  return { jobs, cursor: cursorText(next) }
})
