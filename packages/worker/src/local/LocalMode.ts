/**
 * Local test mode: what a worker does where no platform is configured (docs/spec/local-test-mode.md).
 *
 * ```
 *   without a flag     LocalTest     one job from a file or --test_input, in this package
 *   --rp_serve_api     LocalServer   the handler behind HTTP, in @stint/worker-local
 * ```
 *
 * The HTTP server is a package of its own, loaded only with the flag, so that a worker on a platform neither installs nor loads it.
 */
import type { ConfigError } from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { createRequire } from "node:module"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import type { Shutdown } from "../runtime/Shutdown.ts"
import { WorkerConfig } from "../runtime/WorkerConfig.ts"
import type { JobSource } from "../transport/JobSource.ts"
import * as LocalTest from "./LocalTest.ts"

/** Local test mode cannot start. The message says why, and what to do. */
export class LocalModeError extends Schema.TaggedError<LocalModeError>()("LocalModeError", {
  message: Schema.String
}) {}

/** The transport of one kind of local test mode. */
export type LocalTransport = Layer.Layer<
  JobSource,
  LocalModeError | LocalTest.LocalTestError | ConfigError,
  Shutdown | WorkerConfig
>

/** The module `@stint/worker-local`, as far as a worker uses it. */
export interface LocalServerModule {
  readonly LocalServer: { readonly layer: (options: LocalTest.Options) => LocalTransport }
}

/** How local test mode differs from its defaults. */
export interface Options extends LocalTest.Options {
  /**
   * Loads the HTTP server for `--rp_serve_api`. Default: `@stint/worker-local`, as installed beside the program that is running. A bundle
   * that contains the server passes an `import()` of its own.
   */
  readonly loadServer?: () => Promise<LocalServerModule>
}

const PACKAGE = "@stint/worker-local"

/** The package is an optional peer: this one cannot name it in an import, because it depends on this one. */
const loadInstalled = async (): Promise<LocalServerModule> => {
  const program = process.argv[1] ?? join(process.cwd(), "handler.js")
  return import(pathToFileURL(createRequire(program).resolve(PACKAGE)).href)
}

const missing = (cause: unknown) =>
  new LocalModeError({
    message:
      `--rp_serve_api needs the package ${PACKAGE}, which is not installed beside this program. Run \`npm install --save-dev ` +
      `${PACKAGE}\`, or use \`stint dev\` with the handler's file. (${
        cause instanceof Error ? cause.message.split("\n")[0] : String(cause)
      })`
  })

const isMissing = (cause: unknown): boolean =>
  cause instanceof Error && "code" in cause && (cause.code === "MODULE_NOT_FOUND" || cause.code === "ERR_MODULE_NOT_FOUND")

/** The transport that the flags ask for. */
export const layer = ({ loadServer = loadInstalled, ...options }: Options): LocalTransport =>
  Layer.unwrap(Effect.flatMap(WorkerConfig, ({ flags }) =>
    flags.serveApi
      ? Effect.tryPromise({ try: loadServer, catch: (cause) => cause }).pipe(
        Effect.catch((cause) => isMissing(cause) ? Effect.fail(missing(cause)) : Effect.die(cause)),
        Effect.map(({ LocalServer }) => LocalServer.layer(options))
      )
      : Effect.succeed(LocalTest.layer(options))))
