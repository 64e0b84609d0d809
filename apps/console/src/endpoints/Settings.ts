/**
 * The settings of an endpoint as rows of a table.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { labelText } from "@stint/contract/Placement"
import { absolute, duration } from "../format/Format.ts"

/** A setting and its value. */
export interface SettingRow {
  readonly name: string
  readonly value: string
}

const sourceText = ({ source }: Endpoint): string => {
  switch (source.type) {
    case "handler":
      return source.file
    case "command":
      return source.command.join(" ")
    case "container":
      return [source.image, ...(source.command ?? [])].join(" ")
    case "external":
      return "external workers"
  }
}

/** The settings, by the names that `stint endpoints` and the API use. Values of environment variables stay hidden: they may be secrets. */
export const settingRows = (endpoint: Endpoint): ReadonlyArray<SettingRow> => {
  const {
    concurrency,
    env,
    executionTimeoutMs,
    leaseMs,
    maxAttempts,
    placement,
    rateLimit,
    retentionMs,
    scaler,
    ttlMs,
    workers
  } = endpoint
  const names = Object.keys(env)
  return [
    { name: "source", value: sourceText(endpoint) },
    { name: "workers", value: `${workers.min} to ${workers.max}, idle for ${duration(workers.idleTimeoutMs)}` },
    {
      name: "scaler",
      value: scaler.type === "QUEUE_DELAY"
        ? `add workers after ${scaler.value} s of waiting`
        : `one worker per ${scaler.value} jobs`
    },
    { name: "executionTimeoutMs", value: duration(executionTimeoutMs) },
    { name: "ttlMs", value: duration(ttlMs) },
    { name: "maxAttempts", value: String(maxAttempts) },
    { name: "leaseMs", value: duration(leaseMs) },
    { name: "retentionMs", value: duration(retentionMs) },
    {
      name: "rateLimit",
      value: rateLimit === undefined ? "none" : `${rateLimit.limit} calls in ${duration(rateLimit.perMs)} per key`
    },
    {
      name: "concurrency",
      value: concurrency === undefined ? "no limit" : `${concurrency.limit} running jobs per key (${concurrency.key})`
    },
    { name: "placement", value: placement === undefined ? "all machines" : `machines with ${labelText(placement.labels)}` },
    { name: "env", value: names.length === 0 ? "none" : names.join(", ") },
    { name: "createdAt", value: absolute(endpoint.createdAt) }
  ]
}
