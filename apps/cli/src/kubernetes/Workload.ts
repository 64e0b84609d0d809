/**
 * The platform's nodes and what they need: the StatefulSet, its Services and its disruption budget, and the Job that migrates the database.
 *
 * All pods pass the Pod Security Standard "restricted": https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
import type {
  V1Container,
  V1EnvVar,
  V1Job,
  V1PodDisruptionBudget,
  V1PodSpec,
  V1Service,
  V1StatefulSet
} from "@kubernetes/client-node"
import { createHash } from "node:crypto"
import { type Installation, MIGRATIONS, NAME, NODES, PLATFORM, PORT, SECRET } from "./Installation.ts"
import { SETTINGS_FILE, SETTINGS_FOLDER, settingsFileOf } from "./PodsAccess.ts"

/** The user of the image (apps/cli/image/Dockerfile), and the group of its volumes' files. */
const USER = 1000

/** How long running jobs may take after SIGTERM. Seconds. */
const SHUTDOWN = 30

/** How long a node continues to accept requests after its pod is deleted, while the Service removes its address. Seconds. */
const LEAVING = 5

/** What a shutdown needs in addition to the time for its jobs (docs/operations/service.md). Seconds. */
const MARGIN = 15

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 10)

const secret = (name: string): V1EnvVar => ({ name, valueFrom: { secretKeyRef: { name: SECRET, key: name } } })

/** What all pods of the platform have in common. */
const podOf = (containers: Array<V1Container>) => ({
  automountServiceAccountToken: false,
  // Otherwise Kubernetes adds variables for each Service of the namespace, some with the prefix of Stint's settings.
  enableServiceLinks: false,
  securityContext: {
    runAsNonRoot: true,
    runAsUser: USER,
    runAsGroup: USER,
    fsGroup: USER,
    fsGroupChangePolicy: "OnRootMismatch",
    seccompProfile: { type: "RuntimeDefault" }
  },
  containers
} satisfies V1PodSpec)

const isolated = {
  securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } }
} satisfies Partial<V1Container>

const variablesOf = ({ ingress, store }: Installation): Array<V1EnvVar> => [
  { name: "POD_NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
  { name: "PORT", value: String(PORT) },
  { name: "STINT_HOST", value: "0.0.0.0" },
  { name: "STINT_DATA_DIR", value: "/data/stint" },
  { name: "STINT_KUBERNETES", value: `${SETTINGS_FOLDER}/${SETTINGS_FILE}` },
  { name: "STINT_SHUTDOWN_GRACE", value: `${SHUTDOWN} seconds` },
  ...(ingress === undefined ? [] : [{ name: "STINT_PUBLIC_URL", value: `https://${ingress.host}` }]),
  secret("STINT_API_KEY"),
  secret("STINT_SECRETS_KEY"),
  ...(store._tag === "Database" ? [secret("STINT_DATABASE")] : [])
]

const probe = (path: string) => ({ httpGet: { path, port: "http" } })

const nodeOf = (installation: Installation): V1Container => ({
  name: NAME,
  image: installation.image,
  args: ["serve"],
  ports: [{ name: "http", containerPort: PORT }],
  env: variablesOf(installation),
  // A start waits for the migration of another node, and up to a minute for the API of the cluster.
  startupProbe: { ...probe("/healthz"), periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 60 },
  livenessProbe: { ...probe("/healthz"), periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6 },
  // Responds within 5 s. It only stops traffic from callers, because a restart does not restore a lost database.
  readinessProbe: { ...probe("/readyz"), periodSeconds: 5, timeoutSeconds: 6, failureThreshold: 2 },
  lifecycle: { preStop: { sleep: { seconds: LEAVING } } },
  resources: { requests: { cpu: "500m", memory: "512Mi" }, limits: { memory: "2Gi" } },
  ...isolated,
  volumeMounts: [
    { name: "data", mountPath: "/data" },
    { name: "tmp", mountPath: "/tmp" },
    { name: "settings", mountPath: SETTINGS_FOLDER, readOnly: true }
  ]
})

const spreadOver = (topologyKey: string) => ({
  maxSkew: 1,
  topologyKey,
  whenUnsatisfiable: "ScheduleAnyway",
  labelSelector: { matchLabels: PLATFORM }
})

/**
 * The nodes. A StatefulSet, because a node's name must stay the same: the node finds its workers' pods by it, and they call the node by it
 * (docs/decisions/0073-manifests.md).
 */
export const statefulSetOf = (installation: Installation): V1StatefulSet => {
  const { store } = installation
  const pod = podOf([nodeOf(installation)])
  return {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name: NAME, namespace: installation.namespace, labels: PLATFORM },
    spec: {
      serviceName: NODES,
      replicas: store._tag === "Database" ? store.nodes : 1,
      // Nodes start without waiting for each other, also while the database is unavailable. Updates still replace one node at a time.
      podManagementPolicy: "Parallel",
      updateStrategy: { type: "RollingUpdate" },
      minReadySeconds: 10,
      selector: { matchLabels: PLATFORM },
      template: {
        // Nodes read the settings only when they start, so a change must replace them.
        metadata: { labels: PLATFORM, annotations: { "stint/settings": hashOf(settingsFileOf(installation)) } },
        spec: {
          ...pod,
          serviceAccountName: NAME,
          automountServiceAccountToken: true,
          terminationGracePeriodSeconds: LEAVING + SHUTDOWN + MARGIN,
          topologySpreadConstraints: [spreadOver("kubernetes.io/hostname"), spreadOver("topology.kubernetes.io/zone")],
          volumes: [
            // With a database, it contains only what a killed node does not need: bundles of handlers, positions in the output of workers.
            ...(store._tag === "Database" ? [{ name: "data", emptyDir: {} }] : []),
            { name: "tmp", emptyDir: {} },
            { name: "settings", configMap: { name: NAME } }
          ]
        }
      },
      ...(store._tag === "Volume" && {
        volumeClaimTemplates: [{
          metadata: { name: "data" },
          spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: store.size } } }
        }]
      })
    }
  }
}

/** Migrates the database before, or while, nodes of this image start. Its name changes with the image, because a Job cannot be changed. */
export const migrationOf = ({ image, namespace }: Installation): V1Job => ({
  apiVersion: "batch/v1",
  kind: "Job",
  metadata: { name: `${NAME}-migrate-${hashOf(image)}`, namespace, labels: MIGRATIONS },
  spec: {
    backoffLimit: 10,
    activeDeadlineSeconds: 3600,
    ttlSecondsAfterFinished: 86_400,
    template: {
      metadata: { labels: MIGRATIONS },
      spec: {
        ...podOf([{
          name: "migrate",
          image,
          args: ["database", "migrate"],
          env: [secret("STINT_DATABASE")],
          resources: { requests: { cpu: "100m", memory: "128Mi" }, limits: { memory: "512Mi" } },
          ...isolated,
          volumeMounts: [{ name: "tmp", mountPath: "/tmp" }]
        }]),
        restartPolicy: "Never",
        volumes: [{ name: "tmp", emptyDir: {} }]
      }
    }
  }
})

const ports = [{ name: "http", port: PORT, targetPort: "http" }]

/** For callers: the nodes that are ready. */
export const serviceOf = ({ namespace }: Installation): V1Service => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: NAME, namespace, labels: PLATFORM },
  spec: { selector: PLATFORM, ports }
})

/** For workers: each node by name, also while it is not ready, because it still accepts their results. */
export const nodesServiceOf = ({ namespace }: Installation): V1Service => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: NODES, namespace, labels: PLATFORM },
  spec: { clusterIP: "None", publishNotReadyAddresses: true, selector: PLATFORM, ports }
})

/** Allows the drain of one node at a time, and of nodes that are not ready: otherwise an outage of the database would stop every drain. */
export const budgetOf = ({ namespace }: Installation): V1PodDisruptionBudget => ({
  apiVersion: "policy/v1",
  kind: "PodDisruptionBudget",
  metadata: { name: NAME, namespace, labels: PLATFORM },
  spec: { maxUnavailable: 1, unhealthyPodEvictionPolicy: "AlwaysAllow", selector: { matchLabels: PLATFORM } }
})
