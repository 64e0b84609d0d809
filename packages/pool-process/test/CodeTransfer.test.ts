import { assert, describe, it } from "@effect/vitest"
import * as ProcessPool from "@stint/pool-process/ProcessPool"
import { CodeArtifacts } from "@stint/pool/CodeArtifacts"
import { CodeTransfer } from "@stint/pool/CodeTransfer"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { createHash } from "node:crypto"
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { folder, fresh, script } from "./TestProcesses.ts"

/** A pool on its own machine. */
const machine = Effect.gen(function*() {
  const dataDir = join(folder, fresh("machine"))
  const built = yield* Layer.build(ProcessPool.layer({ dataDir }))
  return { dataDir, artifacts: Context.get(built, CodeArtifacts), transfer: Context.get(built, CodeTransfer) }
})

const frozen = Effect.gen(function*() {
  const from = yield* machine
  const code = yield* from.artifacts.freeze({ type: "handler", file: script("export const answer = 42\nconsole.log(answer)\n") })
  const hash = code?.hash ?? ""
  const files = yield* from.transfer.read(hash)
  assert.isDefined(files)
  return { hash, files: files ?? {} }
})

/** The code of an earlier version of Stint, which is named by the hash of its files. */
const LEGACY = { "worker.mjs": Buffer.from("console.log(1)\n") }
const LEGACY_HASH = createHash("sha256").update("10 worker.mjs 15 console.log(1)\n").digest("hex")

describe("frozen code on another machine", () => {
  it.live("may come from an earlier version of Stint", () =>
    Effect.scoped(Effect.gen(function*() {
      const to = yield* machine
      assert.isUndefined(yield* to.transfer.write(LEGACY_HASH, LEGACY))
      assert.isTrue(yield* to.transfer.has(LEGACY_HASH))
    })), 30_000)

  it.live("is stored under the same hash, and can be read from there", () =>
    Effect.scoped(Effect.gen(function*() {
      const { files, hash } = yield* frozen
      const to = yield* machine
      assert.isFalse(yield* to.transfer.has(hash))
      assert.isUndefined(yield* to.transfer.write(hash, files))
      assert.isTrue(yield* to.transfer.has(hash))
      assert.deepStrictEqual(yield* to.transfer.read(hash), files)
      // A repeated download changes nothing.
      assert.isUndefined(yield* to.transfer.write(hash, files))
      assert.deepStrictEqual(readdirSync(join(to.dataDir, "releases")), [hash])
    })), 30_000)

  it.live("is refused when a byte differs, or a file name points outside the folder", () =>
    Effect.scoped(Effect.gen(function*() {
      const { files, hash } = yield* frozen
      const to = yield* machine
      const [name = ""] = Object.keys(files)
      const changed = { ...files, [name]: Buffer.concat([Buffer.from(" "), files[name] ?? Buffer.from("")]) }
      assert.include(yield* to.transfer.write(hash, changed), "does not have the hash")
      const { "bundle.sha256": _, ...incomplete } = files
      assert.include(yield* to.transfer.write(hash, incomplete), "does not have the hash")
      assert.include(yield* to.transfer.write(hash, { "../worker.mjs": Buffer.from("1") }), "invalid name")
      assert.isFalse(yield* to.transfer.has(hash))
      assert.isUndefined(yield* to.transfer.read(`../releases/${hash}`))
      assert.isFalse(existsSync(join(to.dataDir, "worker.mjs")))
    })), 30_000)
})
