/**
 * Endpoints as code: defines the file that `stint serve --config FILE` reads.
 *
 * ```ts
 * import { defineConfig } from "@stint/cli"
 *
 * export default defineConfig({
 *   endpoints: {
 *     thumbnail: { handler: "./handler.ts", workers: { max: 4, idleTimeout: "5 seconds" } },
 *     llm: { command: ["python3", "handler.py"], executionTimeout: "10 minutes" }
 *   }
 * })
 * ```
 *
 * Paths are relative to the file. Durations use Effect's syntax: `"5 seconds"`, `"2 minutes"`, or milliseconds.
 */
import { fieldIssues } from "@stint/contract/SchemaIssues"
import * as StintPackages from "@stint/pool-process/StintPackages"
import * as Effect from "effect/Effect"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import { pathToFileURL } from "node:url"
import { CliFailure } from "../CliFailure.ts"
import { Definition, describeIssue } from "./EndpointDefinition.ts"
import type { EndpointDefinition } from "./EndpointDefinition.ts"

/** The file: endpoints by id. */
export interface EndpointsConfig {
  readonly endpoints: Readonly<Record<string, EndpointDefinition>>
}

/** Returns its argument unchanged; it only adds types. */
export const defineConfig = (config: EndpointsConfig): EndpointsConfig => config

const decodeConfig = Schema.decodeUnknownEffect(
  Schema.Struct({ endpoints: Schema.Record(Schema.String, Definition) }),
  { errors: "all", onExcessProperty: "error" }
)

/** Loads and decodes the file's default export. Runs the file. */
export const read = Effect.fn("EndpointsFile.read")(function*(file: string) {
  const path = yield* Path.Path
  const absolute = path.resolve(file)
  const loaded = yield* Effect.tryPromise({
    try: async (): Promise<unknown> => {
      await StintPackages.addToThisProcess(import.meta.url)
      return import(pathToFileURL(absolute).href)
    },
    catch: (cause) =>
      new CliFailure({
        message: `The configuration ${absolute} cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`,
        hint: "It must be a TypeScript or JavaScript module with `export default defineConfig({ endpoints: { ... } })`."
      })
  })
  const config = yield* decodeConfig(
    typeof loaded === "object" && loaded !== null && "default" in loaded ? loaded.default : undefined
  ).pipe(
    Effect.mapError((error) =>
      new CliFailure({
        message: `The configuration ${absolute} has mistakes.`,
        hint: fieldIssues(error).map((issue) => describeIssue(issue)).join("\n  "),
        code: "invalid-configuration"
      })
    )
  )
  return { endpoints: config.endpoints, directory: path.dirname(absolute) }
})
