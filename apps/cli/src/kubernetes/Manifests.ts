/**
 * The objects of a platform in Kubernetes.
 *
 * | object | why |
 * |---|---|
 * | Namespaces, ServiceAccount, Role, RoleBinding | the platform may run pods in the workers' namespace, and nothing else |
 * | ConfigMap | the file that `STINT_KUBERNETES` names |
 * | Job | migrates the database |
 * | StatefulSet, Services, PodDisruptionBudget | the nodes |
 * | NetworkPolicies, Ingress | who may connect to whom |
 */
import type { KubernetesObject } from "@kubernetes/client-node"
import type { Installation } from "./Installation.ts"
import { ingressOf, policiesOf } from "./Network.ts"
import { configMapOf, namespacesOf, roleBindingOf, roleOf, serviceAccountOf } from "./PodsAccess.ts"
import { budgetOf, migrationOf, nodesServiceOf, serviceOf, statefulSetOf } from "./Workload.ts"

/** Names in the client's types that are reserved words, mapped to Kubernetes' names. */
const RESERVED: Readonly<Record<string, string>> = { _from: "from" }

const renamed = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(renamed)
    : value !== null && typeof value === "object"
    ? Object.fromEntries(Object.entries(value).map(([name, one]) => [RESERVED[name] ?? name, renamed(one)]))
    : value

/** The objects, in the order in which they are created. */
export const manifestsOf = (installation: Installation): ReadonlyArray<unknown> => {
  const { ingress, store } = installation
  const objects: ReadonlyArray<KubernetesObject> = [
    ...namespacesOf(installation),
    serviceAccountOf(installation),
    roleOf(installation),
    roleBindingOf(installation),
    configMapOf(installation),
    ...policiesOf(installation),
    ...(store._tag === "Database" ? [migrationOf(installation)] : []),
    nodesServiceOf(installation),
    serviceOf(installation),
    // A budget for the only node would stop every drain, or allow all of them.
    ...(store._tag === "Database" && store.nodes > 1 ? [budgetOf(installation)] : []),
    statefulSetOf(installation),
    ...(ingress === undefined ? [] : [ingressOf(installation, ingress)])
  ]
  return objects.map(renamed)
}
