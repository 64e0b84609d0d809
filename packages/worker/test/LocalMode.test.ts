import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { fileURLToPath } from "node:url"
import * as LocalMode from "../src/local/LocalMode.ts"
import * as Shutdown from "../src/runtime/Shutdown.ts"
import * as WorkerConfig from "../src/runtime/WorkerConfig.ts"
import * as WorkerProcess from "../src/testing/WorkerProcess.ts"

/** The error from `--rp_serve_api` when the server's module cannot be loaded for this reason. */
const loadingFailsWith = (cause: Error) =>
  Effect.flip(Layer.build(LocalMode.layer({ loadServer: () => Promise.reject(cause) }))).pipe(
    Effect.scoped,
    Effect.provide([
      Shutdown.layer,
      Layer.effect(WorkerConfig.WorkerConfig, WorkerConfig.read({}, ["--rp_serve_api"]))
    ])
  )

describe("--rp_serve_api", () => {
  it("ends the process with the install command when @stint/worker-local is missing", async () => {
    const worker = WorkerProcess.start(fileURLToPath(new URL("./fixtures/worker.ts", import.meta.url)), {
      args: ["--rp_serve_api"]
    })
    expect(await worker.ended).toMatchObject({
      code: 1,
      stdout: "ERROR | --rp_serve_api needs the package @stint/worker-local, which is not installed next to this program. " +
        "Run `npm install --save-dev @stint/worker-local`, or use `stint dev` with the handler's file.\n"
    })
  })

  it.effect("reports any other reason why the package cannot be loaded, without the install command", () =>
    Effect.gen(function*() {
      const missingDependency = Object.assign(new Error("Cannot find module 'effect'"), { code: "MODULE_NOT_FOUND" })
      for (const cause of [missingDependency, new SyntaxError("Unexpected token")]) {
        const error = yield* loadingFailsWith(cause)
        expect(error).toMatchObject({
          _tag: "LocalModeError",
          message: `--rp_serve_api cannot load @stint/worker-local: ${cause.message}`
        })
      }
    }))
})
