/**
 * The recovery steps of docs/operations/postgresql.md with real servers and nodes: a base backup with a WAL archive that is restored to a point in time,
 * and a standby that is promoted while a node works.
 */
import { execute, missing, startCluster, type TestCluster } from "@stint/store-postgres/testing"
import { chownSync, mkdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import { describe, expect, it } from "vitest"
import { DatabaseLink } from "./DatabaseLink.ts"
import { FIXTURES, type JobObject, PlatformProcess, until } from "./PlatformProcess.ts"
import { type SharedDatabase, startDatabase } from "./SharedDatabase.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "stint.config.ts")]

/** How long a state may take to appear on a busy machine. Milliseconds. */
const LIMIT = 600_000

const query = async (cluster: TestCluster, statement: string): Promise<unknown> =>
  (await execute(cluster.url("postgres"), statement))[0]?.[0]

const untilTrue = (what: string, cluster: TestCluster, statement: string): Promise<boolean> =>
  until(what, async () => await query(cluster, statement) === true ? true : undefined, LIMIT)

/** A folder of the server's user. */
const folderOf = (cluster: TestCluster, name: string): string => {
  const folder = join(cluster.folder, name)
  mkdirSync(folder)
  return folder
}

const stopped = (cluster: TestCluster): AsyncDisposable => ({ [Symbol.asyncDispose]: () => cluster.stop() })

/** The calls of an external worker. */
const workerOf = async (node: PlatformProcess) => {
  const key = await node.workerKey("joined")
  const call = (method: string, path: string, body?: unknown) => node.request(method, `/v2/joined/${path}`, body, key)
  return {
    take: (worker: string): Promise<string> =>
      until(`a job for ${worker}`, async () => {
        const { body, status } = await call("GET", `job-take/${worker}`)
        return status === 200 ? (body as JobObject).id : undefined
      }, LIMIT),
    done: async (worker: string, id: string): Promise<number> =>
      (await call("POST", `job-done/${worker}/${id}`, { output: worker })).status
  }
}

describe.skipIf(missing !== undefined)(missing ?? "recovery with PostgreSQL", () => {
  it(
    "restores a point in time: jobs from before it exist and run, later ones are unknown, and late results are refused",
    async () => {
      await using parts = new AsyncDisposableStack()
      const database = parts.use(
        await startDatabase({
          fsync: true,
          settings: [
            "wal_level = replica",
            "archive_mode = on",
            `archive_command = 'test ! -f ../archive/%f && cp %p ../archive/%f'`
          ]
        })
      )
      const { cluster } = database
      const { gid, uid } = statSync(cluster.folder)
      const archive = folderOf(cluster, "archive")
      chownSync(archive, uid, gid)
      const base = join(cluster.folder, "base")

      const node = parts.use(await PlatformProcess.create(CONFIG, database.settings))
      const before = await workerOf(node)
      const [ended, held, returned] = [await node.run("joined", 1), await node.run("joined", 2), await node.run("joined", 3)]
      const delayed = await node.run("one", { ms: 5 })
      await node.ended("one", delayed, LIMIT)
      expect(await before.take("ann")).toBe(ended)
      expect(await before.done("ann", ended)).toBe(200)

      await cluster.run("pg_basebackup", "-D", base, "-h", cluster.folder, "-U", "stint", "-c", "fast")

      expect(await before.take("ben")).toBe(held)
      const waiting = await node.run("joined", 4)
      const time = String(await query(cluster, "SELECT clock_timestamp()::text"))
      // After the time: a job begins, another one is submitted and begins.
      expect(await before.take("cat")).toBe(returned)
      const unknown = await node.run("joined", 5)
      const switched = String(await query(cluster, "SELECT pg_walfile_name(pg_switch_wal())"))
      await untilTrue("the archive", cluster, `SELECT last_archived_wal >= '${switched}' FROM pg_stat_archiver`)
      await node.end("SIGKILL")
      await cluster.ctl("-m", "immediate", "stop")

      const restored = await startCluster({
        fsync: true,
        prepare: async (run, data) => {
          await run("/bin/cp", "-a", base, data)
          writeFileSync(join(data, "recovery.signal"), "")
        },
        settings: [
          "archive_mode = off",
          `restore_command = 'cp ${archive}/%f %p'`,
          `recovery_target_time = '${time}'`,
          "recovery_target_action = 'promote'"
        ]
      })
      parts.use(stopped(restored))
      await untilTrue("the end of the recovery", restored, "SELECT NOT pg_is_in_recovery()")

      const second = parts.use(
        await PlatformProcess.create(CONFIG, { ...database.settings, STINT_DATABASE: restored.url("postgres") })
      )
      expect(await second.job("joined", ended)).toMatchObject({ status: "COMPLETED", output: "ann" })
      expect(await second.job("one", delayed)).toMatchObject({ status: "COMPLETED" })
      expect(await second.job("joined", held)).toMatchObject({ status: "IN_PROGRESS" })
      for (const id of [returned, waiting]) expect(await second.job("joined", id)).toMatchObject({ status: "IN_QUEUE" })
      expect((await second.request("GET", `/v2/joined/status/${unknown}`)).status).toBe(404)

      const after = await workerOf(second)
      // The lease of a job that was running then is renewed at the start.
      expect(await after.done("ben", held)).toBe(200)
      expect(await after.done("cat", returned)).toBe(409)
      expect(await after.done("cat", unknown)).toBe(404)
      for (const id of [returned, waiting]) {
        expect(await after.take("dan")).toBe(id)
        expect(await after.done("dan", id)).toBe(200)
        expect(await second.ended("joined", id)).toMatchObject({ status: "COMPLETED", output: "dan" })
      }
      expect(await second.ended("one", await second.run("one", { ms: 5 }), LIMIT)).toMatchObject({ status: "COMPLETED" })
    },
    LIMIT
  )

  /** A server, its standby, and a node that reaches the server through a proxy. The connection of the standby can be cut. */
  const startReplicated = async (parts: AsyncDisposableStack, isSynchronous: boolean) => {
    const database: SharedDatabase = parts.use(await startDatabase({ fsync: true, settings: ["wal_level = replica"] }))
    const { cluster } = database
    const replication = parts.use(await DatabaseLink.open(cluster.folder))
    const source = `host=127.0.0.1 port=${replication.port} user=stint application_name=standby`
    const standby = await startCluster({
      fsync: true,
      prepare: (run, data) => run("pg_basebackup", "-D", data, "-d", source, "-c", "fast", "-R")
    })
    parts.use(stopped(standby))
    await untilTrue("the standby", cluster, "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'")
    if (isSynchronous) {
      await query(cluster, "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
      await query(cluster, "SELECT pg_reload_conf()")
      await untilTrue(
        "the synchronous standby",
        cluster,
        "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
      )
    }
    const proxy = parts.use(await DatabaseLink.open(cluster.folder))
    const node = parts.use(await PlatformProcess.create(CONFIG, { ...database.settings, STINT_DATABASE: proxy.url }))
    return { cluster, node, proxy, replication, standby }
  }

  /** Four callers submit jobs again and again. `refused`: 503, or no response. */
  const callers = (node: PlatformProcess) => {
    const state = { isOver: false, refused: 0, acknowledged: new Array<string>() }
    const caller = async () => {
      while (!state.isOver) {
        const { body, status } = await node.request("POST", "/v2/slow/run", { input: { ms: 5 } })
        if (status === 200) state.acknowledged.push((body as JobObject).id)
        else {
          expect(status).toBe(503)
          state.refused += 1
          await new Promise((next) => setTimeout(next, 100))
        }
      }
    }
    const done = Promise.all([caller(), caller(), caller(), caller()])
    // Awaited below.
    done.catch(() => {})
    const waitFor = (what: string, look: () => boolean) =>
      Promise.race([until(what, () => look() ? true : undefined, LIMIT), done])
    return {
      state,
      /** Waits for some more acknowledged jobs. */
      more: (count: number) => {
        const goal = state.acknowledged.length + count
        return waitFor(`${count} more jobs`, () => state.acknowledged.length >= goal)
      },
      moreRefused: (count: number) => {
        const goal = state.refused + count
        return waitFor(`${count} more refusals`, () => state.refused >= goal)
      },
      stop: async () => {
        state.isOver = true
        await done
      }
    }
  }

  /** How many jobs the node does not know. All others end. */
  const lostOf = async (node: PlatformProcess, ids: ReadonlyArray<string>): Promise<number> => {
    let lost = 0
    for (const id of ids) {
      if ((await node.request("GET", `/v2/slow/status/${id}`)).status === 404) lost += 1
      else expect(await node.ended("slow", id, LIMIT)).toMatchObject({ status: "COMPLETED" })
    }
    return lost
  }

  it(
    "loses no acknowledged job with a synchronous standby that is promoted under load, and the node continues by itself",
    async () => {
      await using parts = new AsyncDisposableStack()
      const { cluster, node, proxy, replication, standby } = await startReplicated(parts, true)
      const { pid } = node
      const { more, moreRefused, state, stop } = callers(node)
      await more(30)
      // The standby receives nothing more, so no commit ends.
      replication.cut("both")
      await moreRefused(8)
      const refused = state.refused
      await cluster.ctl("-m", "immediate", "stop")
      // The node reaches the standby before it is promoted, and uses it neither for reads nor for writes.
      proxy.moveTo(standby.folder)
      await moreRefused(8)
      const [known = ""] = state.acknowledged
      expect((await node.request("GET", `/v2/slow/status/${known}`)).status).toBe(503)
      const promoted = performance.now()
      await standby.ctl("promote")
      await more(1)
      const took = Math.round(performance.now() - promoted)
      await more(30)
      await stop()
      const { acknowledged } = state
      expect(await lostOf(node, acknowledged)).toBe(0)
      expect(node.pid).toBe(pid)
      process.stdout.write(
        `synchronous: ${acknowledged.length} acknowledged, 0 lost, ${refused} refused before the failover, ${state.refused} in all; ` +
          `first job ${took} ms after the promotion\n`
      )
    },
    LIMIT
  )

  it("continues by itself with an asynchronous standby, without the jobs that it had not received", async () => {
    await using parts = new AsyncDisposableStack()
    const { cluster, node, proxy, replication, standby } = await startReplicated(parts, false)
    const { pid } = node
    const { more, state, stop } = callers(node)
    await more(30)
    replication.cut("both")
    const before = state.acknowledged.length
    await more(30)
    await cluster.ctl("-m", "immediate", "stop")
    const written = state.acknowledged.length - before
    await standby.ctl("promote")
    proxy.moveTo(standby.folder)
    await more(30)
    await stop()
    const lost = await lostOf(node, state.acknowledged)
    expect(lost).toBeGreaterThan(0)
    expect(lost).toBeLessThanOrEqual(written + 4)
    expect(node.pid).toBe(pid)
    process.stdout.write(`asynchronous: ${state.acknowledged.length} acknowledged, ${lost} lost, of ${written} after the cut\n`)
  }, LIMIT)
})
