/**
 * The parts of pods, lists and watch events that the pool reads. Other members are ignored, so that newer API servers are compatible.
 */
import * as Schema from "effect/Schema"

const text = Schema.optionalKey(Schema.String)

const Condition = Schema.Struct({ type: Schema.String, status: Schema.String, reason: text, message: text })

/** How a container ended. */
const Terminated = Schema.Struct({ exitCode: Schema.Int, reason: text, message: text })

const ContainerStatus = Schema.Struct({
  name: Schema.String,
  state: Schema.optionalKey(Schema.Struct({
    waiting: Schema.optionalKey(Schema.Struct({ reason: text, message: text })),
    running: Schema.optionalKey(Schema.Struct({})),
    terminated: Schema.optionalKey(Terminated)
  }))
})

/** https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#PodStatus */
export const Pod = Schema.Struct({
  metadata: Schema.Struct({
    name: Schema.String,
    deletionTimestamp: text,
    deletionGracePeriodSeconds: Schema.optionalKey(Schema.Int),
    annotations: Schema.optionalKey(Schema.Record(Schema.String, Schema.String))
  }),
  status: Schema.optionalKey(Schema.Struct({
    phase: text,
    reason: text,
    message: text,
    conditions: Schema.optionalKey(Schema.Array(Condition)),
    containerStatuses: Schema.optionalKey(Schema.Array(ContainerStatus))
  }))
})
export type Pod = typeof Pod.Type

const Version = Schema.Struct({ resourceVersion: Schema.String, continue: text })

/** A page of a list. */
export const PodList = Schema.Struct({ metadata: Version, items: Schema.Array(Pod) })

/** The Status object of an error. */
export const Status = Schema.Struct({ code: Schema.optionalKey(Schema.Int), reason: text, message: text })

const PodEvent = Schema.Struct({
  type: Schema.Literals(["ADDED", "DELETED", "MODIFIED"]),
  object: Schema.Struct({
    ...Pod.fields,
    metadata: Schema.Struct({ ...Pod.fields.metadata.fields, resourceVersion: Schema.String })
  })
})

/** https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes */
export const WatchEvent = Schema.Union([
  PodEvent,
  Schema.Struct({ type: Schema.tag("BOOKMARK"), object: Schema.Struct({ metadata: Version }) }),
  Schema.Struct({ type: Schema.tag("ERROR"), object: Status })
])
export type WatchEvent = typeof WatchEvent.Type
