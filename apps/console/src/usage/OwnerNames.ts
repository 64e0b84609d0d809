/**
 * The names of endpoints, releases and keys in usage sums.
 */
import { useQuery } from "@tanstack/react-query"
import * as Api from "../api/Api.ts"
import { permits } from "../api/Permissions.ts"
import { useSession } from "../api/useSession.ts"
import { keyName } from "../format/Format.ts"
import type { Owner } from "./UsageSums.ts"

/** The name of a key by its id. */
export type KeyNames = ReadonlyMap<string, string>

/** The names of the keys, for a session that may list them. Any other session knows only its own key's name. */
export const useKeyNames = (isNeeded: boolean): KeyNames => {
  const session = useSession()
  const { data } = useQuery({
    queryKey: ["keys"],
    queryFn: ({ signal }) => Api.keys(signal),
    enabled: isNeeded && permits(session, "keys"),
    staleTime: 60_000
  })
  return new Map([
    ["platform", "the platform's key"],
    ...(session.id === "platform" ? [] : [[session.id, keyName(session.name)] as const]),
    ...(data?.keys ?? []).map(({ id, name }) => [id, name] as const)
  ])
}

/** `hello`, `hello release 3`, `nightly`. Removed keys are shown by their id. */
export const ownerName = (
  { endpoint, key, release }: Owner["row"],
  by: "endpoint" | "release" | "key",
  names: KeyNames
): string => {
  if (by === "key") return key === undefined ? "no key" : key === "*" ? "further keys" : names.get(key) ?? key
  return release === undefined ? endpoint ?? "-" : `${endpoint} release ${release}`
}
