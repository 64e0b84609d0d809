/**
 * Warns when the worker's code changes the variables of its model after the process has started
 * (docs/operations/models.md#what-the-worker-sees).
 *
 * The hub's client reads them when it is imported. A later change is either ignored, or the client no longer finds the platform's copy and
 * downloads the model again. Nothing fails then: the worker is only slow, at each start.
 */
import { ENV_PREFIXES, ENVIRONMENT_AT_START } from "@stint/contract/WorkerProtocol"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"

type Variables = Readonly<Record<string, string | undefined>>

const NAMES = ["HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE"]

/** Copied when this module is imported. The imports of a handler's module run before its own statements. */
const AT_IMPORT: Variables = Object.fromEntries(NAMES.map((name) => [name, process.env[name]]))

/** The variables of this worker before its code ran. A standby has imported this module before it became the worker. */
const atStart = (): Variables => {
  const received: unknown = Reflect.get(globalThis, Symbol.for(ENVIRONMENT_AT_START))
  if (!Predicate.isObject(received)) return AT_IMPORT
  return Object.fromEntries(NAMES.map((name) => [name, typeof received[name] === "string" ? received[name] : undefined]))
}

const shown = (value: string | undefined): string => value === undefined ? "unset" : JSON.stringify(value)

/** The warning; undefined if the code has changed nothing, or if the platform provides no model. */
export const warningOf = (before: Variables, now: Variables): string | undefined => {
  const model = ENV_PREFIXES.map((prefix) => now[`${prefix}MODEL`]).find((value) => value !== undefined)
  const changes = NAMES.filter((name) => before[name] !== now[name])
    .map((name) => `${name} from ${shown(before[name])} to ${shown(now[name])}`)
  if (model === undefined || changes.length === 0) return undefined
  return `The worker's code changed ${
    changes.join(" and ")
  } after the process had started. A hub client that was imported before ignores ` +
    `that; another one may not find the platform's copy of ${model} and download it again. Remove the change, or set the variable in the ` +
    "endpoint's env."
}

/** Compares the variables when the layer is built: after the setup, which may load the model. */
export const layer: Layer.Layer<never> = Layer.effectDiscard(Effect.suspend(() => {
  const warning = warningOf(atStart(), process.env)
  return warning === undefined ? Effect.void : Effect.logWarning(warning)
}))
