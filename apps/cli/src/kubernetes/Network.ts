/**
 * The allowed connections. Policies are additive: an operator allows more with further policies.
 *
 * ```
 *   callers' namespaces --4600--> platform --> PostgreSQL, the API of the cluster, https
 *                                    ^
 *                       workers --4600, and nothing else but DNS
 * ```
 */
import type { V1Ingress, V1LabelSelector, V1NetworkPolicy, V1NetworkPolicyEgressRule } from "@kubernetes/client-node"
import { WORKER_LABELS } from "@stint/pool-kubernetes/ClusterRules"
import { type Installation, MIGRATIONS, NAME, PLATFORM, PORT } from "./Installation.ts"

/** The label of the namespaces whose pods may call the platform. */
const CALLERS = { "stint/callers": "true" } as const

/** Every namespace has this label: https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/#automatic-labelling */
const namespaced = (name: string): V1LabelSelector => ({ matchLabels: { "kubernetes.io/metadata.name": name } })

const tcp = (...ports: ReadonlyArray<number>) => ports.map((port) => ({ protocol: "TCP", port }))

/** Name resolution through the pods of CoreDNS. */
const dns: V1NetworkPolicyEgressRule = {
  to: [{ namespaceSelector: namespaced("kube-system"), podSelector: { matchLabels: { "k8s-app": "kube-dns" } } }],
  ports: [{ protocol: "UDP", port: 53 }, { protocol: "TCP", port: 53 }]
}

/** The nodes. The cluster's API is not a pod, so a policy cannot name it; its port behind the Service is 443 or 6443. */
const platformPolicyOf = ({ namespace, store, workersNamespace }: Installation): V1NetworkPolicy => ({
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name: NAME, namespace, labels: PLATFORM },
  spec: {
    podSelector: { matchLabels: PLATFORM },
    policyTypes: ["Ingress", "Egress"],
    ingress: [{
      _from: [
        { namespaceSelector: { matchLabels: CALLERS } },
        { namespaceSelector: namespaced(workersNamespace), podSelector: { matchLabels: WORKER_LABELS } }
      ],
      ports: tcp(PORT)
    }],
    egress: [dns, { ports: tcp(443, 6443, ...(store._tag === "Database" ? [store.port] : [])) }]
  }
})

const workersPolicyOf = ({ namespace, workersNamespace }: Installation): V1NetworkPolicy => ({
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name: `${NAME}-workers`, namespace: workersNamespace, labels: PLATFORM },
  spec: {
    podSelector: { matchLabels: WORKER_LABELS },
    policyTypes: ["Ingress", "Egress"],
    egress: [
      dns,
      { to: [{ namespaceSelector: namespaced(namespace), podSelector: { matchLabels: PLATFORM } }], ports: tcp(PORT) }
    ]
  }
})

const migrationPolicyOf = (namespace: string, port: number): V1NetworkPolicy => ({
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name: `${NAME}-migrations`, namespace, labels: MIGRATIONS },
  spec: {
    podSelector: { matchLabels: MIGRATIONS },
    policyTypes: ["Ingress", "Egress"],
    egress: [dns, { ports: tcp(port) }]
  }
})

/** The policies of the platform, its workers and its migrations. */
export const policiesOf = (installation: Installation): ReadonlyArray<V1NetworkPolicy> => [
  platformPolicyOf(installation),
  workersPolicyOf(installation),
  ...(installation.store._tag === "Database" ? [migrationPolicyOf(installation.namespace, installation.store.port)] : [])
]

/** The address outside the cluster. Without TLS, callers would send keys in clear text. */
export const ingressOf = (
  { namespace }: Installation,
  { className, host, tlsSecret }: NonNullable<Installation["ingress"]>
): V1Ingress => ({
  apiVersion: "networking.k8s.io/v1",
  kind: "Ingress",
  metadata: { name: NAME, namespace, labels: PLATFORM },
  spec: {
    ...(className === undefined ? {} : { ingressClassName: className }),
    tls: [{ hosts: [host], secretName: tlsSecret }],
    rules: [{
      host,
      http: { paths: [{ path: "/", pathType: "Prefix", backend: { service: { name: NAME, port: { name: "http" } } } }] }
    }]
  }
})
