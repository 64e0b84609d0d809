/**
 * Local test mode: how a worker runs when no platform is configured (docs/spec/local-test-mode.md).
 *
 * ```
 *   without a flag     LocalTest     one job from a file or --test_input, in this package
 *   --rp_serve_api     LocalServer   the handler behind HTTP, in @stint/worker-local
 * ```
 *
 * The HTTP server is a separate package that is loaded only with the flag, so a worker on a platform neither installs nor loads it.
 */
import type { ConfigError } from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { createRequire } from "node:module"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { messageOf } from "../handlers/ThrownValue.ts"
import type { Shutdown } from "../runtime/Shutdown.ts"
import { WorkerConfig } from "../runtime/WorkerConfig.ts"
import type { JobSource } from "../transport/JobSource.ts"
import * as LocalTest from "./LocalTest.ts"

/** Local test mode cannot start. The message gives the reason and the remedy. */
export class LocalModeError extends Schema.TaggedError<LocalModeError>()("LocalModeError", {
  message: Schema.String
}) {}

/** The transport of either kind of local test mode. */
export type LocalTransport = Layer.Layer<
  JobSource,
  LocalModeError | LocalTest.LocalTestError | ConfigError,
  Shutdown | WorkerConfig
>

/** The part of the module `@stint/worker-local` that a worker uses. */
export interface LocalServerModule {
  readonly LocalServer: { readonly layer: (options: LocalTest.Options) => LocalTransport }
}

/** Options for local test mode. */
export interface Options extends LocalTest.Options {
  /**
   * Loads the HTTP server for `--rp_serve_api`. Default: loads the `@stint/worker-local` that is installed next to the running program. A
   * bundle that contains the server passes its own `import()`.
   */
  readonly loadServer?: () => Promise<LocalServerModule>
}

const PACKAGE = "@stint/worker-local"

/** Resolved at run time from the running program: `@stint/worker-local` depends on this package, so an import would create a cycle. */
const loadInstalled = async (): Promise<LocalServerModule> => {
  const program = process.argv[1] ?? join(process.cwd(), "handler.js")
  return import(pathToFileURL(createRequire(program).resolve(PACKAGE)).href)
}

const isMissing = (cause: unknown): boolean =>
  cause instanceof Error && "code" in cause && (cause.code === "MODULE_NOT_FOUND" || cause.code === "ERR_MODULE_NOT_FOUND") &&
  cause.message.includes(PACKAGE)

const loadError = (cause: unknown): LocalModeError =>
  new LocalModeError({
    message: isMissing(cause)
      ? `--rp_serve_api needs the package ${PACKAGE}, which is not installed next to this program. Run \`npm install --save-dev ` +
        `${PACKAGE}\`, or use \`stint dev\` with the handler's file.`
      : `--rp_serve_api cannot load ${PACKAGE}: ${messageOf(cause)}`
  })

/** The transport that the flags select. */
export const layer = ({ loadServer = loadInstalled, ...options }: Options): LocalTransport =>
  Layer.unwrap(Effect.flatMap(WorkerConfig, ({ flags }) =>
    flags.serveApi
      ? Effect.map(
        Effect.tryPromise({ try: loadServer, catch: loadError }),
        ({ LocalServer }) => LocalServer.layer(options)
      )
      : Effect.succeed(LocalTest.layer(options))))
