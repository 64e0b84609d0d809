/**
 * What lets the platform run workers as pods: the namespaces, the service account, its role in the workers' namespace, and the file of
 * `STINT_KUBERNETES`.
 */
import type { V1ConfigMap, V1Namespace, V1Role, V1RoleBinding, V1ServiceAccount } from "@kubernetes/client-node"
import { RIGHTS } from "@stint/pool-kubernetes/ClusterRules"
import type { KubernetesSettings } from "@stint/pool-kubernetes/KubernetesSettings"
import { type Installation, NAME, NODES, PLATFORM, PORT } from "./Installation.ts"

/** Where the file that `STINT_KUBERNETES` names is mounted. */
export const SETTINGS_FOLDER = "/etc/stint"

/** Its name. */
export const SETTINGS_FILE = "kubernetes.json"

/** The file. `$(POD_NAME)` is the node that reads it. */
export const settingsFileOf = ({ endpoints, namespace, pods, workersNamespace }: Installation): string => {
  const settings: KubernetesSettings = {
    namespace: workersNamespace,
    platformUrl: `http://$(POD_NAME).${NODES}.${namespace}.svc:${PORT}`,
    name: `$(POD_NAME).${namespace}`,
    ...(pods === undefined ? {} : { pods }),
    ...(endpoints === undefined ? {} : { endpoints })
  }
  return JSON.stringify(settings, null, 2)
}

/** The namespaces. Both reject pods that violate the Pod Security Standard "restricted". */
export const namespacesOf = ({ namespace, workersNamespace }: Installation): ReadonlyArray<V1Namespace> =>
  [namespace, workersNamespace].map((name) => ({
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name, labels: { "pod-security.kubernetes.io/enforce": "restricted" } }
  }))

/** The service account of the nodes. Only their pods mount its token. */
export const serviceAccountOf = ({ namespace }: Installation): V1ServiceAccount => ({
  apiVersion: "v1",
  kind: "ServiceAccount",
  metadata: { name: NAME, namespace, labels: PLATFORM },
  automountServiceAccountToken: false
})

/** The rights of the pool, in the workers' namespace only. */
export const roleOf = ({ workersNamespace }: Installation): V1Role => ({
  apiVersion: "rbac.authorization.k8s.io/v1",
  kind: "Role",
  metadata: { name: NAME, namespace: workersNamespace, labels: PLATFORM },
  rules: RIGHTS.map(({ resource, verbs }) => ({ apiGroups: [""], resources: [resource], verbs: [...verbs] }))
})

/** Gives the account the role. */
export const roleBindingOf = ({ namespace, workersNamespace }: Installation): V1RoleBinding => ({
  apiVersion: "rbac.authorization.k8s.io/v1",
  kind: "RoleBinding",
  metadata: { name: NAME, namespace: workersNamespace, labels: PLATFORM },
  roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: NAME },
  subjects: [{ kind: "ServiceAccount", name: NAME, namespace }]
})

/** The file that `STINT_KUBERNETES` names. */
export const configMapOf = (installation: Installation): V1ConfigMap => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: NAME, namespace: installation.namespace, labels: PLATFORM },
  data: { [SETTINGS_FILE]: settingsFileOf(installation) }
})
