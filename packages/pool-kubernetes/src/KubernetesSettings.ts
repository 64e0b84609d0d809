/**
 * The settings of pods: a JSON file from the operator. Callers who create endpoints choose an image, limits and volumes; the operator chooses where
 * the
 * pods run and with which rights (docs/operations/kubernetes.md).
 */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** Names of objects: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names */
const Name = Schema.String.check(
  Schema.isPattern(/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/, { message: "Expected a valid Kubernetes object name" })
)

/** A quantity, for example `500m` or `2Gi`. */
const Quantity = Schema.String.check(
  Schema.isPattern(/^\d+(?:\.\d+)?(?:m|[kMGTPE]i?)?$/, { message: "Expected a quantity, for example 500m or 2Gi" })
)

const Toleration = Schema.Struct({
  key: Schema.optionalKey(Schema.String),
  operator: Schema.optionalKey(Schema.Literals(["Equal", "Exists"])),
  value: Schema.optionalKey(Schema.String),
  effect: Schema.optionalKey(Schema.Literals(["NoExecute", "NoSchedule", "PreferNoSchedule"])),
  tolerationSeconds: Schema.optionalKey(Schema.Int)
})

const seconds = (maximum: number) => Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum })))

const PodSettings = Schema.Struct({
  /** Labels of the nodes that may run the pods. */
  nodeSelector: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)),
  tolerations: Schema.optionalKey(Schema.Array(Toleration)),
  /** Secrets of the namespace with the credentials of image registries. */
  imagePullSecrets: Schema.optionalKey(Schema.Array(Name)),
  /** Default: `IfNotPresent`. */
  imagePullPolicy: Schema.optionalKey(Schema.Literals(["Always", "IfNotPresent", "Never"])),
  priorityClassName: Schema.optionalKey(Name),
  runtimeClassName: Schema.optionalKey(Name),
  /** The service account. Its token is never mounted. Default: the namespace's. */
  serviceAccountName: Schema.optionalKey(Name),
  /** The resources that a pod reserves on its node. Default: the endpoint's limits. */
  requests: Schema.optionalKey(Schema.Struct({ cpu: Schema.optionalKey(Quantity), memory: Schema.optionalKey(Quantity) })),
  /** The resource that the nodes' device plugin offers. Default: `nvidia.com/gpu`. */
  gpuResource: Schema.optionalKey(Schema.NonEmptyString),
  /** The size of `/tmp`, on the node's disk. Default: no limit. */
  tmpSize: Schema.optionalKey(Quantity),
  /** More labels, for example for a NetworkPolicy. */
  labels: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)),
  /** How long a worker may take to exit after SIGTERM, even on a drained node. Seconds; default: 300. */
  graceSeconds: seconds(86_400),
  /** How long to wait for a node with room. In a cluster that adds nodes, must be longer than a new node takes. Seconds; default: 60. */
  unschedulableSeconds: seconds(86_400),
  /** How long a start may take in total, including the image pull. Seconds; default: 900. */
  startSeconds: seconds(86_400)
})
/** The settings of an endpoint's pods. */
export type PodSettings = typeof PodSettings.Type

/** The settings. */
export const KubernetesSettings = Schema.Struct({
  /** The namespace of the pods. */
  namespace: Name,
  /** The address at which pods reach this platform, for example `http://stint.jobs.svc:4600`. */
  platformUrl: Schema.String.check(
    Schema.isPattern(/^https?:\/\/[^/?#@\s]+$/, {
      message: "Expected an address without a path or credentials, for example http://stint.jobs.svc:4600"
    })
  ),
  /**
   * The name of this platform in the labels of its pods. The platform takes over and removes the pods with this name, so two platforms, or two nodes
   * of one platform, must never share one. Default: derived from the machine's name and the data folder.
   */
  name: Schema.optionalKey(Schema.String.check(
    Schema.isPattern(/^[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?$/, { message: "Expected a valid label value" })
  )),
  /** A kubeconfig file. Default: `KUBECONFIG`, `~/.kube/config`, or else the service account of the platform's own pod. */
  kubeconfig: Schema.optionalKey(Schema.NonEmptyString),
  /** Its context. Default: the current one. */
  context: Schema.optionalKey(Schema.NonEmptyString),
  /** The settings of all pods. */
  pods: Schema.optionalKey(PodSettings),
  /** Settings by endpoint, which replace those of `pods`. */
  endpoints: Schema.optionalKey(Schema.Record(Schema.String, PodSettings))
})
export type KubernetesSettings = typeof KubernetesSettings.Type

const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(KubernetesSettings), { onExcessProperty: "error" })

/** Reads the text of the file. A misspelled member is an error. */
export const parse = (text: string): Effect.Effect<KubernetesSettings, Schema.SchemaError> => decode(text)

/** The settings of an endpoint's pods. */
export const settingsOf = ({ endpoints = {}, pods = {} }: KubernetesSettings, endpoint: string): PodSettings => ({
  ...pods,
  ...(Object.hasOwn(endpoints, endpoint) ? endpoints[endpoint] : {})
})
