import { assert, describe, it } from "@effect/vitest"
import type { Endpoint } from "@stint/contract/Endpoint"
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import { workerEnvironment } from "@stint/contract/WorkerProtocol"
import { endpointOf, resolvedOf } from "@stint/pool/testing"
import { WorkerPool } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import * as WorkerUsers from "../src/WorkerUsers.ts"
import { folder, fresh, line, script, withPool } from "./TestProcesses.ts"

const isRoot = process.getuid?.() === 0

/** Ids that no account on a test machine has. */
const IDS = { first: 471_100, last: 471_103 }

const folders = () => {
  const [dataDir, cacheDir] = [join(folder, fresh("data")), join(folder, fresh("cache"))]
  chmodSync(folder, 0o755)
  mkdirSync(dataDir, { mode: 0o700 })
  mkdirSync(cacheDir, { mode: 0o755 })
  return { dataDir, cacheDir }
}

/** Starts a worker of an endpoint. */
const start = Effect.fnUntraced(function*(id: string, source: Endpoint["source"], env: Record<string, string>) {
  const pool = yield* WorkerPool
  const endpoint = yield* endpointOf({ id: EndpointId.make(id), source, env })
  const worker = WorkerId.make(fresh("w"))
  const variables = workerEnvironment({ baseUrl: "http://127.0.0.1:1", endpoint: id, worker, key: "key", pingIntervalMs: 10_000 })
  return { worker, handle: yield* pool.start({ endpoint: resolvedOf(endpoint), worker, variables }) }
})

describe("a user for each endpoint", () => {
  it.live.skipIf(!isRoot)(
    "keeps a handler away from the data folder and the environment of the platform, and from the workers of other endpoints",
    () =>
      Effect.gen(function*() {
        const { cacheDir, dataDir } = folders()
        writeFileSync(join(dataDir, "admin-key.json"), "of the platform", { mode: 0o600 })
        // The first endpoint: writes into its home folder and into its working folder, and stays.
        const mark = fresh("victim")
        const victim = script(`
          import { writeFileSync } from "node:fs"
          writeFileSync(process.env.HOME + "/note", "secret", { mode: 0o644 })
          writeFileSync("state", "secret", { mode: 0o644 })
          console.log("${mark}", JSON.stringify([process.pid, process.getuid(), process.getgid(), process.getgroups(), process.env.HOME, process.cwd()]))
          setInterval(() => {}, 1000)
        `)
        const spied = fresh("spy")
        const spy = script(`
          import { readFileSync, readdirSync } from "node:fs"
          const attempt = (what) => { try { what(); return "done" } catch (error) { return error.code } }
          const { VICTIM_PID: pid, VICTIM_HOME: home, VICTIM_CWD: cwd, DATA: data, CACHE: cache } = process.env
          console.log("${spied}", JSON.stringify({
            uid: process.getuid(),
            "own home": attempt(() => readdirSync(process.env.HOME)),
            "the platform's key": attempt(() => readFileSync(data + "/admin-key.json")),
            "the platform's data": attempt(() => readdirSync(data)),
            "the platform's environment": attempt(() => readFileSync("/proc/" + process.ppid + "/environ")),
            "the other worker's environment": attempt(() => readFileSync("/proc/" + pid + "/environ")),
            "the other worker's memory": attempt(() => readFileSync("/proc/" + pid + "/mem")),
            "the other worker's home": attempt(() => readFileSync(home + "/note")),
            "the other worker's folder": attempt(() => readFileSync(cwd + "/state")),
            "a signal": attempt(() => process.kill(Number(pid), 0))
          }))
        `)
        const command = (file: string): Endpoint["source"] => ({
          type: "command",
          command: [process.execPath, file],
          directory: folder
        })
        yield* withPool(
          Effect.gen(function*() {
            const { handle } = yield* start("victim", command(victim), { SECRET: "x" })
            const [pid, uid, gid, groups, home, cwd] = JSON.parse(yield* line(`${mark} `))
            assert.deepStrictEqual([uid, gid, groups], [IDS.first, IDS.first, [IDS.first]])
            assert.strictEqual(home, join(cacheDir, "homes", String(IDS.first)))
            assert.strictEqual(statSync(home).mode & 0o777, 0o700)
            const { handle: second } = yield* start("spy", command(spy), {
              VICTIM_PID: String(pid),
              VICTIM_HOME: home,
              VICTIM_CWD: cwd,
              DATA: dataDir
            })
            yield* second.exit
            assert.deepStrictEqual(JSON.parse(yield* line(`${spied} `)), {
              uid: IDS.first + 1,
              "own home": "done",
              "the platform's key": "EACCES",
              "the platform's data": "EACCES",
              "the platform's environment": "EACCES",
              "the other worker's environment": "EACCES",
              "the other worker's memory": "EACCES",
              "the other worker's home": "EACCES",
              "the other worker's folder": "EACCES",
              "a signal": "EPERM"
            })
            yield* handle.kill
            yield* handle.exit
          }),
          { dataDir, cacheDir, user: IDS }
        )
      }),
    60_000
  )

  it.live.skipIf(!isRoot)("gives handlers a compile cache that only their endpoint can write", () =>
    Effect.gen(function*() {
      const { cacheDir, dataDir } = folders()
      const mark = fresh("cached")
      const file = script(`console.log("${mark}", process.env.NODE_COMPILE_CACHE)`)
      yield* withPool(
        Effect.flatMap(start("cached", { type: "handler", file }, {}), ({ handle }) => handle.exit),
        { dataDir, cacheDir, user: IDS }
      )
      const cache = yield* line(`${mark} `)
      assert.strictEqual(cache, join(cacheDir, "homes", String(IDS.first), "compile-cache"))
      assert.strictEqual(statSync(cache).uid, IDS.first)
      assert.isFalse(existsSync(join(cacheDir, "compile-cache")))
    }), 60_000)

  it.effect.skipIf(!isRoot)(
    "gives an endpoint the same user after a restart, and never another endpoint's user",
    () =>
      Effect.gen(function*() {
        const options = { ...folders(), users: IDS }
        const idOf = (endpoint: string) =>
          Effect.map(Effect.flatMap(WorkerUsers.make(options), (users) => users.of(endpoint)), (user) => user?.uid)
        assert.deepStrictEqual(yield* Effect.forEach(["b", "a", "b", "c"], idOf), [471_100, 471_101, 471_100, 471_102])
        assert.deepStrictEqual(JSON.parse(readFileSync(join(options.dataDir, "worker-ids.json"), "utf8")), {
          b: 471_100,
          a: 471_101,
          c: 471_102
        })
        yield* idOf("d")
        assert.match((yield* Effect.flip(idOf("e"))).message, /each of the 4 ids of STINT_WORKER_USER belongs to an endpoint/)
        const larger = yield* WorkerUsers.make({ ...options, users: { first: 471_102, last: 471_110 } })
        const moved = yield* Effect.forEach(["a", "c", "e"], (endpoint) => Effect.map(larger.of(endpoint), (user) => user?.uid))
        assert.deepStrictEqual(moved, [471_104, 471_102, 471_105])
      })
  )

  it.effect.skipIf(!isRoot)(
    "keeps the home folder of an endpoint, and empties it before another endpoint gets the same id",
    () =>
      Effect.gen(function*() {
        const options = { ...folders(), users: IDS }
        const homeOf = (endpoint: string) =>
          Effect.map(Effect.flatMap(WorkerUsers.make(options), (users) => users.of(endpoint)), (user) => user?.home ?? "")
        const home = yield* homeOf("a")
        writeFileSync(join(home, "note"), "of a")
        assert.strictEqual(yield* homeOf("a"), home)
        assert.isTrue(existsSync(join(home, "note")))
        // As if the data folder had been restored from a backup, which does not contain the file.
        rmSync(join(options.dataDir, "worker-ids.json"))
        assert.strictEqual(yield* homeOf("b"), home)
        assert.deepStrictEqual(readdirSync(home), [])
        assert.strictEqual(statSync(home).uid, IDS.first)
      })
  )

  it.effect.skipIf(!isRoot)(
    "gives an endpoint's earlier id to no other endpoint after changes of the range, but back to this one",
    () =>
      Effect.gen(function*() {
        const options = folders()
        const idOf = (endpoint: string, users: WorkerUsers.WorkerIds) =>
          Effect.map(
            Effect.flatMap(WorkerUsers.make({ ...options, users }), (users) => users.of(endpoint)),
            (user) => user?.uid
          )
        const other = { first: IDS.first + 10, last: IDS.last + 10 }
        assert.strictEqual(yield* idOf("a", IDS), IDS.first)
        assert.strictEqual(yield* idOf("a", other), other.first)
        assert.strictEqual(yield* idOf("b", IDS), IDS.first + 1)
        assert.strictEqual(yield* idOf("a", IDS), IDS.first)
        assert.strictEqual(yield* idOf("a", other), other.first)
        assert.strictEqual(yield* idOf("b", other), other.first + 1)
      })
  )

  it.effect("says what to do when the stored ids cannot be read", () =>
    Effect.gen(function*() {
      const options = { ...folders(), users: IDS }
      writeFileSync(join(options.dataDir, "worker-ids.json"), "{")
      assert.match(
        (yield* Effect.flip(WorkerUsers.make(options))).message,
        /worker-ids\.json cannot be read .* Restore it from a copy\. Without a copy, delete it/
      )
    }))
})
