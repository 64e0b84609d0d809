/**
 * What roles and network policies of a cluster need to know about the pool.
 */

/** The rights that the pool's requests need, in the form of a Role (PodsApi.ts). */
export const RIGHTS = [
  { resource: "pods", verbs: ["create", "delete", "list", "watch"] },
  { resource: "pods/log", verbs: ["get"] }
] as const

/** The label of all workers' pods. */
export const WORKER_LABELS = { "app.kubernetes.io/managed-by": "stint" } as const
