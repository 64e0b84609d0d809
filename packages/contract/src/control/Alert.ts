/**
 * Alerts: problems that an operator must know about, which the platform sends to the operator's receivers (docs/operations/alerts.md).
 */
import * as Schema from "effect/Schema"

/** What is wrong. */
export const AlertKind = Schema.Literals([
  "endpoint_failing",
  "workers_failing",
  "queue_old",
  "disk_low",
  "build_failed",
  "webhook_receiver_gone",
  "budget_reached"
])
export type AlertKind = typeof AlertKind.Type

/** An alert. Times are in milliseconds since 1970. */
export const Alert = Schema.Struct({
  /** Identifies this occurrence. The same in all its messages. */
  id: Schema.String,
  /** Identifies the problem, for example `queue_old/hello`. The same for every occurrence on every node. */
  fingerprint: Schema.String,
  kind: AlertKind,
  /** Absent for an alert that concerns the whole platform. */
  endpoint: Schema.optionalKey(Schema.String),
  /** The problem, as one sentence. It contains the values at the time of the message. */
  summary: Schema.String,
  /** What to do. */
  action: Schema.String,
  firedAt: Schema.Int
})
export type Alert = typeof Alert.Type

/** The body of a message to a receiver. Later versions only add members. */
export const AlertMessage = Schema.Struct({
  ...Alert.fields,
  type: Schema.Literals(["alert.firing", "alert.resolved", "alert.test"]),
  /** `test`: sent by `stint alerts test`. */
  kind: Schema.Union([AlertKind, Schema.Literal("test")]),
  /** 1 for the first message of a firing alert, 2 for its first repetition. */
  notice: Schema.Int,
  /** Absent while the alert fires. */
  resolvedAt: Schema.optionalKey(Schema.Int),
  /** A firing alert is repeated after this time. */
  repeatSeconds: Schema.Int,
  /** The platform's address. */
  platform: Schema.String
})
export type AlertMessage = typeof AlertMessage.Type

/** A receiver of alerts. Its address may contain a secret, so only its origin is shown. */
export const AlertReceiver = Schema.Struct({
  /** `https://alerts.example.com`. */
  origin: Schema.String,
  /** The number of messages that wait for delivery. */
  waiting: Schema.Int,
  /** When the last message was delivered, since the platform started. */
  deliveredAt: Schema.optionalKey(Schema.Int),
  /** Why the last attempt failed. Absent when it succeeded. */
  problem: Schema.optionalKey(Schema.String)
})
export type AlertReceiver = typeof AlertReceiver.Type

/** The alerts that fire now. */
export const AlertList = Schema.Struct({
  /** Whether alerts are configured. If not, the platform checks no conditions. */
  configured: Schema.Boolean,
  alerts: Schema.Array(Alert),
  /** Empty for a key that does not permit all endpoints. */
  receivers: Schema.Array(AlertReceiver)
})
export type AlertList = typeof AlertList.Type

/** The responses of the receivers to a test. */
export const AlertTest = Schema.Struct({
  receivers: Schema.Array(Schema.Struct({
    origin: Schema.String,
    delivered: Schema.Boolean,
    /** The HTTP status of the response; absent without one. */
    status: Schema.optionalKey(Schema.Int),
    /** Why it was not delivered. */
    problem: Schema.optionalKey(Schema.String)
  }))
})
export type AlertTest = typeof AlertTest.Type
