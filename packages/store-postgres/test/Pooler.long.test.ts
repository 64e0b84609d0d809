/**
 * A node behind PgBouncer: it works in session mode, and does not start in transaction mode. Debian has PgBouncer 1.18; version 1.21, which knows
 * prepared statements in transaction mode, is untested.
 */
import { assert, describe, it, vi } from "@effect/vitest"
import { Scenario } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { spawn } from "node:child_process"
import { chownSync, existsSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Doctor from "../src/Doctor.ts"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import * as PostgresJobStore from "../src/PostgresJobStore.ts"
import { missing as missingServer, testCluster } from "./TestCluster.ts"

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 })

const PROGRAM = "/usr/sbin/pgbouncer"

const missing = missingServer ??
  (existsSync(PROGRAM) ? undefined : `skipped: there is no ${PROGRAM} (Debian: apt-get install pgbouncer)`)

describe.skipIf(missing !== undefined)(missing ?? "pgbouncer", () => {
  const cluster = testCluster()

  /** The address of a pooler in front of the cluster, which listens on a socket in its folder. */
  const pooler = (mode: "session" | "transaction", port: number) =>
    Effect.gen(function*() {
      const { folder } = cluster
      const { gid, uid } = statSync(folder)
      const [config, users, log] = [`${mode}.ini`, "users.txt", `${mode}.log`].map((name) => join(folder, name))
      writeFileSync(users ?? "", "\"stint\" \"\"\n")
      writeFileSync(
        config ?? "",
        [
          "[databases]",
          `postgres = host=${folder} user=stint`,
          "[pgbouncer]",
          `pool_mode = ${mode}`,
          `unix_socket_dir = ${folder}`,
          `listen_port = ${port}`,
          "auth_type = trust",
          `auth_file = ${users}`,
          `logfile = ${log}`
        ].join("\n")
      )
      for (const file of [config, users]) chownSync(file ?? "", uid, gid)
      yield* Effect.acquireRelease(
        Effect.promise(() =>
          new Promise<ReturnType<typeof spawn>>((resolve, reject) => {
            // It refuses to run as root.
            const [file, ...args] = [
              ...(process.getuid?.() === 0 ? ["setpriv", `--reuid=${uid}`, `--regid=${gid}`, "--clear-groups"] : []),
              PROGRAM,
              config ?? ""
            ]
            const child = spawn(file, args, {
              stdio: ["ignore", "ignore", "pipe"]
            })
            let text = ""
            child.stderr.on("data", (chunk: Buffer) => {
              text += chunk.toString()
              if (text.includes("process up")) resolve(child)
            })
            child.once("exit", (code) => reject(new Error(`pgbouncer ended with the code ${code}: ${text}`)))
          })
        ),
        (child) =>
          Effect.promise(() =>
            new Promise<void>((resolve) => {
              child.once("exit", () => resolve())
              child.kill("SIGKILL")
            })
          )
      )
      return `postgres://stint@localhost:${port}/postgres?host=${encodeURIComponent(folder)}`
    })

  const failing = (url: string) =>
    Effect.map(
      Doctor.examine({ url: Redacted.make(url) }, { notifyMs: 1_000 }),
      ({ findings }) => findings.filter(({ state }) => state === "failed").map(({ check }) => check)
    )

  it.live("a node does not start behind a pooler in transaction mode, and says why", () =>
    Effect.gen(function*() {
      const address = yield* pooler("transaction", 7_001)
      const error = yield* Effect.flip(Layer.build(PostgresDatabase.layer({ url: Redacted.make(address) })))
      assert.strictEqual(error.reason._tag, "TransactionPooler")
      assert.include(error.message, "pool_mode = session")
      assert.include(yield* failing(address), "pooler")
    }).pipe(Effect.scoped))

  it.live("a node works behind a pooler in session mode", () =>
    Effect.gen(function*() {
      const address = yield* pooler("session", 7_002)
      const url = Redacted.make(address)
      yield* Effect.gen(function*() {
        const jobs = yield* JobStore
        const job = Scenario.record()
        yield* jobs.insert(job)
        const claimed = yield* jobs.claim(job.endpoint, 1, { _tag: "Claim", now: 0, worker: "ann" })
        assert.deepStrictEqual(claimed.jobs.map(({ id }) => id), [job.id])
      }).pipe(Effect.provide(PostgresJobStore.layer.pipe(Layer.provide(PostgresDatabase.layer({ url })))))
      assert.notInclude(yield* failing(address), "pooler")
      assert.notInclude(yield* failing(address), "notifications")
    }).pipe(Effect.scoped))
})
