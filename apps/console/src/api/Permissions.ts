/**
 * What the session's key permits, so that the console shows no button whose request the platform would reject.
 */
import type { Session } from "./Api.ts"

/** Something that a key may permit. */
export type Action = "view" | "read" | "submit" | "manage" | "deploy" | "keys"

const SCOPES: Readonly<Record<Action, ReadonlyArray<string>>> = {
  // The state and the usage of endpoints, without their jobs.
  view: ["admin", "jobs", "jobs:read", "deploy"],
  read: ["admin", "jobs", "jobs:read"],
  submit: ["admin", "jobs", "jobs:submit"],
  manage: ["admin", "jobs", "jobs:manage"],
  deploy: ["admin", "deploy"],
  keys: ["admin"]
}

/** Whether the key permits an action, on an endpoint if one is given. */
export const permits = ({ endpoints, scopes }: Session, action: Action, endpoint?: string): boolean => {
  if (!SCOPES[action].some((scope) => scopes.includes(scope))) return false
  return endpoint === undefined || endpoints === "all" || endpoints.includes(endpoint)
}
