/**
 * Facts about the pool for a cluster's roles and network policies.
 */

/** The rights that the pool's requests need, in the form of a Role (PodsApi.ts). */
export const RIGHTS = [
  { resource: "pods", verbs: ["create", "delete", "list", "watch"] },
  { resource: "pods/log", verbs: ["get"] }
] as const

/** The label of all workers' pods. */
export const WORKER_LABELS = { "app.kubernetes.io/managed-by": "stint" } as const
