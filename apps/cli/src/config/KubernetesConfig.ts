/**
 * Settings of pods, for endpoints with the source `container`. On an invalid file, the platform does not start, and the error names the
 * problem.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_KUBERNETES` | none: Docker or Podman runs the endpoints with an image | a JSON file with the settings of pods (docs/operations/kubernetes.md#the-settings). With it, workers with an image are pods of a cluster; the engine then only builds images |
 */
import type { KubernetesSettings } from "@stint/pool-kubernetes/KubernetesSettings"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { open } from "node:fs/promises"
import { CliFailure } from "../CliFailure.ts"
import { setting } from "./Setting.ts"

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

/** Reads the setting and the file. The schema is loaded only if the setting is present. */
export const load: Effect.Effect<KubernetesSettings | undefined, CliFailure> = Effect.gen(function*() {
  const named = yield* setting(
    "STINT_KUBERNETES",
    "a JSON file, for example /etc/stint/kubernetes.json",
    Config.option(Config.NonEmptyString("STINT_KUBERNETES"))
  )
  if (Option.isNone(named)) return undefined
  const file = named.value
  const text = yield* Effect.tryPromise({
    try: () => read(file),
    catch: (cause) => failure(file, `cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`)
  })
  const { parse } = yield* Effect.promise(() => import("@stint/pool-kubernetes/KubernetesSettings"))
  return yield* Effect.mapError(parse(text), ({ message }) => failure(file, `is not valid: ${message.replace(/\.$/, "")}`))
})
