/**
 * The keys that permit an endpoint.
 */
import type { AccessKey } from "@stint/contract/AccessKey"
import { useQuery } from "@tanstack/react-query"
import * as Api from "../api/Api.ts"
import { Loaded } from "../ui/Loaded.tsx"
import { Code } from "../ui/Text.tsx"
import { KeyTable } from "./KeyTable.tsx"

/** The keys that permit an endpoint, alone or with all others. */
export const keysOf = (keys: ReadonlyArray<AccessKey>, endpoint: string): ReadonlyArray<AccessKey> =>
  keys.filter(({ endpoints }) => endpoints === "all" || endpoints.some((one) => one === endpoint))

/** The keys, and how to create one for this endpoint alone. */
export const EndpointKeys = ({ endpoint }: { readonly endpoint: string }) => {
  const query = useQuery({ queryKey: ["keys"], queryFn: ({ signal }) => Api.keys(signal) })
  return (
    <Loaded query={query} rows={4}>
      {({ keys }) => {
        const own = keysOf(keys, endpoint)
        return (
          <>
            {own.length === 0
              ? <p className="empty">No key permits this endpoint, except the platform's own key.</p>
              : <KeyTable keys={own} />}
            <p className="muted">This creates a key that may only run and read jobs of this endpoint:</p>
            <Code label="the command">{`stint keys create my-app --scope jobs --endpoint ${endpoint}`}</Code>
          </>
        )
      }}
    </Loaded>
  )
}
