/**
 * Settings for pods, for endpoints with the source `container`. If the file is invalid, the platform does not start, and the error names the
 * problem.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_KUBERNETES` | none: Docker or Podman runs the endpoints with an image | a JSON file with the settings for pods (docs/operations/kubernetes.md#the-settings). With it, workers with an image are pods of a cluster; the engine then only builds images |
 *
 * `$(NAME)` in the file stands for that variable of the platform's environment, so that nodes in pods can share one file, although each has its own
 * address.
 */
import type { KubernetesSettings } from "@stint/pool-kubernetes/KubernetesSettings"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { open } from "node:fs/promises"
import { CliFailure } from "../CliFailure.ts"
import { setting } from "./Setting.ts"
import { Environment } from "./SettingNames.ts"

/** The maximum size of the file. Bytes. */
const MAX_FILE = 1024 * 1024

const HINT = "See docs/operations/kubernetes.md for its members, or unset STINT_KUBERNETES."

const failure = (file: string, problem: string) =>
  new CliFailure({ message: `The file ${file} of STINT_KUBERNETES ${problem}.`, hint: HINT })

const read = async (file: string): Promise<string> => {
  const opened = await open(file)
  try {
    const stats = await opened.stat()
    if (!stats.isFile()) throw new Error("it is not a file")
    const { size } = stats
    if (size > MAX_FILE) throw new Error(`it has ${size} bytes; the limit is ${MAX_FILE}`)
    return await opened.readFile("utf8")
  } finally {
    await opened.close()
  }
}

/** Replaces `$(NAME)`, as Kubernetes does in a pod's variables. */
const expand = (file: string, text: string, env: Readonly<Record<string, string | undefined>>) =>
  Effect.suspend(() => {
    const missing = new Set<string>()
    const expanded = text.replaceAll(/\$\(([A-Za-z_]\w*)\)/g, (_, name: string) => {
      const value = env[name]
      if (value === undefined) missing.add(name)
      // A quotation mark in the value must not end the text that contains it.
      return JSON.stringify(value ?? "").slice(1, -1)
    })
    return missing.size === 0
      ? Effect.succeed(expanded)
      : Effect.fail(failure(file, `names variables that are not set: ${[...missing].join(", ")}`))
  })

/** Reads the setting and the file. Loads the schema only if the setting is set. */
export const load: Effect.Effect<KubernetesSettings | undefined, CliFailure> = Effect.gen(function*() {
  const named = yield* setting(
    "STINT_KUBERNETES",
    "a JSON file, for example /etc/stint/kubernetes.json",
    Config.option(Config.NonEmptyString("STINT_KUBERNETES"))
  )
  if (Option.isNone(named)) return undefined
  const file = named.value
  const written = yield* Effect.tryPromise({
    try: () => read(file),
    catch: (cause) => failure(file, `cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`)
  })
  const text = yield* expand(file, written, yield* Environment)
  const { parse } = yield* Effect.promise(() => import("@stint/pool-kubernetes/KubernetesSettings"))
  return yield* Effect.mapError(parse(text), ({ message }) => failure(file, `is not valid: ${message.replace(/\.$/, "")}`))
})
