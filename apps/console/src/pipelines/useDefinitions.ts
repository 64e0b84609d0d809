/**
 * Which endpoints are pipelines, with their definitions. The platform has no list of pipelines, so this queries every endpoint once, and then
 * only the pipelines.
 */
import type { DefinitionList } from "@stint/contract/Definitions"
import { useQueries } from "@tanstack/react-query"
import { definitions } from "../api/Runs.ts"
import { usePoll } from "../live/Connection.ts"

/** A pipeline. */
export interface PipelineEndpoint {
  readonly endpoint: string
  readonly list: DefinitionList
}

/** The pipelines among endpoints. `isPending`: some requests have not completed. `error`: the error of a failed request. */
export const useDefinitions = (endpoints: ReadonlyArray<string>) => {
  const poll = usePoll(5_000)
  return useQueries({
    queries: endpoints.map((endpoint) => ({
      queryKey: ["definitions", endpoint],
      queryFn: async ({ signal }: { readonly signal: AbortSignal }): Promise<PipelineEndpoint> => ({
        endpoint,
        list: await definitions(endpoint, signal)
      }),
      staleTime: 60_000,
      refetchInterval: ({ state: { data } }: { readonly state: { readonly data: PipelineEndpoint | undefined } }) =>
        data !== undefined && data.list.definitions.length > 0 ? poll : false as const
    })),
    combine: (results) => ({
      isPending: results.some(({ isPending }) => isPending),
      error: results.find(({ error }) => error !== null)?.error ?? null,
      refetch: () => results.forEach((one) => void one.refetch()),
      pipelines: results.flatMap(({ data }) => data !== undefined && data.list.definitions.length > 0 ? [data] : [])
    })
  })
}
