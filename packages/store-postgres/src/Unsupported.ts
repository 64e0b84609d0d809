/**
 * What the stores in PostgreSQL do not implement yet, and the error of each operation that needs it, which says what to do instead. A store
 * that ignored a concurrency key would run too many jobs of the key at a time.
 */
import type { EndpointSpec } from "@stint/contract/Endpoint"
import { StoreError, StoreUnsupported } from "@stint/store/StoreError"

const refusal = (problem: string, hint: string): StoreError => new StoreError({ reason: new StoreUnsupported({ problem, hint }) })

/** Refuses endpoints and jobs with concurrency keys. */
export const concurrency = ({ endpoint }: { readonly endpoint: string }): StoreError =>
  refusal(
    `The endpoint "${endpoint}" limits the concurrency of keys, which a platform with a PostgreSQL database does not support yet.`,
    "Remove `concurrency` from the endpoint, or run it on a platform without STINT_DATABASE."
  )

/** Why an endpoint cannot be stored; undefined: it can. */
export const refusedEndpoint = ({ concurrency: limits, id }: Pick<EndpointSpec, "concurrency" | "id">): StoreError | undefined =>
  limits === undefined ? undefined : concurrency({ endpoint: id })
