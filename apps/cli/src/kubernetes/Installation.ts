/**
 * The operator's choices for a platform in Kubernetes, and the names that its manifests share (docs/operations/kubernetes.md#install-the-platform).
 */
import { KubernetesSettings } from "@stint/pool-kubernetes/KubernetesSettings"
import * as Schema from "effect/Schema"

/** https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-label-names */
const label = (maximum: number) =>
  Schema.String.check(
    Schema.isPattern(new RegExp(`^[a-z0-9](?:[a-z0-9-]{0,${maximum - 2}}[a-z0-9])?$`), {
      message: `Expected a name of at most ${maximum} small letters, digits and -`
    })
  )

const Host = Schema.String.check(
  Schema.isPattern(/^(?=.{1,253}$)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/, {
    message: "Expected a host, for example jobs.example.org"
  })
)

/** The choices. */
export const Installation = Schema.Struct({
  /** An image of the platform: docs/operations/container-image.md. */
  image: Schema.String.check(
    Schema.isPattern(/^\S{1,512}$/, { message: "Expected an image, for example registry.example.com/stint:1" })
  ),
  /** The namespace of the platform. Short, because `stint-10.NAMESPACE` is the value of a label. */
  namespace: label(50),
  /** The namespace of the workers' pods. */
  workersNamespace: label(63),
  store: Schema.Union([
    /** The port of PostgreSQL, and the number of nodes. */
    Schema.TaggedStruct("Database", {
      port: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 65_535 })),
      nodes: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 }))
    }),
    /** The size of the volume of one node without PostgreSQL. */
    Schema.TaggedStruct("Volume", {
      size: Schema.String.check(Schema.isPattern(/^[1-9]\d*[MGT]i?$/, { message: "Expected a size, for example 20Gi" }))
    })
  ]),
  /** The address for callers outside the cluster, with TLS. */
  ingress: Schema.optionalKey(Schema.Struct({ host: Host, className: Schema.optionalKey(label(63)), tlsSecret: label(63) })),
  /** Members of `STINT_KUBERNETES`. */
  pods: KubernetesSettings.fields.pods,
  endpoints: KubernetesSettings.fields.endpoints
}).check(
  Schema.makeFilter(({ namespace, workersNamespace }) =>
    namespace !== workersNamespace || {
      path: ["workersNamespace"],
      issue:
        "Expected a namespace other than the platform's: callers who may create endpoints may mount every claim of the workers' namespace"
    }
  )
)
export type Installation = typeof Installation.Type

const { endpoints, pods } = KubernetesSettings.fields

/** Reads the text of a file with the settings of workers' pods. A misspelled member is an error. */
export const decodePods = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Struct({ pods, endpoints })), {
  onExcessProperty: "error"
})

/** Checks the choices. */
export const decode = Schema.decodeUnknownEffect(Installation)

/** The name of the platform's objects. At most one platform per namespace. */
export const NAME = "stint"

/** The headless Service, which gives each node its own name. */
export const NODES = "stint-nodes"

/** The operator's Secret, with variables of the platform. The manifests do not contain it. */
export const SECRET = "stint"

/** The port of the platform. */
export const PORT = 4600

const labelsOf = (component: string) => ({ "app.kubernetes.io/name": NAME, "app.kubernetes.io/component": component })

/** The labels of the platform's nodes. */
export const PLATFORM = labelsOf("platform")

/** The labels of the Job that migrates the database. */
export const MIGRATIONS = labelsOf("migrations")
