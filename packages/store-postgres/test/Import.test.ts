/**
 * The target of an import: what it does when rows exchange unique values, and when a node starts at the same time. Whole imports are in
 * `apps/cli/test/DatabaseImport.test.ts`.
 */
import { EndpointId, JobId } from "@stint/contract/Ids"
import { Scenario } from "@stint/store-testing"
import { jobRow, JOBS, type StoredRow } from "@stint/store/StoredTables"
import * as Transfer from "@stint/store/Transfer"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { once } from "node:events"
import { createServer } from "node:net"
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest"
import { connect } from "../src/Connection.ts"
import * as Import from "../src/Import.ts"
import * as Migrate from "../src/Migrate.ts"
import * as Migrations from "../src/Migrations.ts"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import { execute, missing, startCluster, type TestCluster } from "../src/testing.ts"

/** The time at which the file of the imported platform was created. */
const ORIGIN = 1

const LIMIT = 120_000

describe.skipIf(missing !== undefined)(missing ?? "the target of an import", () => {
  let cluster: TestCluster
  let url: string
  let databases = 0

  beforeAll(async () => {
    cluster = await startCluster({})
  }, LIMIT)
  afterAll(() => cluster?.stop(), LIMIT)
  beforeEach(async () => {
    databases += 1
    await execute(cluster.url("postgres"), `CREATE DATABASE target${databases}`)
    url = cluster.url(`target${databases}`)
  })

  const sql = (text: string) => execute(url, text)
  const options = () => ({ url: Redacted.make(url) })
  const withTarget = <A, E>(run: (target: Import.ImportTarget) => Effect.Effect<A, E>): Promise<A> =>
    Effect.runPromise(Effect.scoped(Effect.flatMap(Import.open(options(), ORIGIN), run)))
  /** Waits until statements wait for locks, or until something else has happened. */
  const waiting = async (count: number, isOver: () => boolean = () => false) => {
    while (!isOver()) {
      const [row] = await sql("SELECT count(*)::int FROM pg_locks WHERE NOT granted")
      if (Number(row?.[0]) >= count) return
    }
  }
  const startNode = (): Promise<void> =>
    Effect.runPromise(Effect.scoped(Effect.asVoid(Layer.build(PostgresDatabase.layer(options())))))

  /** Copies a platform that has these rows only. */
  const copy = (target: Import.ImportTarget, table: string, rows: ReadonlyArray<StoredRow>) =>
    Transfer.copy(
      { rows: ({ name }) => name === table ? rows : [], count: ({ name }) => name === table ? rows.length : 0 },
      target,
      () => Effect.void
    )

  const keyedJob = (id: string, seq: number, idempotencyKey: string | null): StoredRow =>
    jobRow({
      ...Scenario.record({ id: JobId.make(id), endpoint: EndpointId.make("red") }),
      seq,
      position: seq,
      isRun: false,
      chunkBytes: 0,
      errorGroup: null,
      idempotencyKey,
      fingerprint: idempotencyKey === null ? null : "print"
    })

  it("stores an idempotency key whose earlier job is gone, although that job comes later in the order of ids", async () => {
    const others = Array.from({ length: 600 }, (_, n) => keyedJob(`b-${String(n).padStart(3, "0")}`, n + 2, null))
    await withTarget((target) => copy(target, JOBS.name, [...others, keyedJob("sync-1", 1, "order 17")]))
    const tables = await withTarget((target) => copy(target, JOBS.name, [keyedJob("a-1", 700, "order 17"), ...others]))
    expect(tables.find(({ table }) => table === JOBS.name)).toMatchObject({ rows: 601 })
    expect(await sql("SELECT id FROM stint.jobs WHERE idempotency_key IS NOT NULL")).toEqual([["a-1"]])
    expect(await sql("SELECT count(*)::int FROM stint.ready")).toEqual([[601]])
  }, LIMIT)

  it("stores the number of a removed row that comes later, in each table with a second unique key", async () => {
    const rowsOf: Readonly<Record<string, (n: number, unique: string) => StoredRow>> = {
      run_events: (n, unique) => [n, "red", "name", "key", unique, 9, "1"],
      batch_requests: (n, unique) => [n, "batch", unique, null, null, "{}"],
      deliveries: (
        n,
        unique
      ) => [n, unique, "job", "red", "COMPLETED", "http://a", "delivered", 1, 1, null, 1, 200, null, "{}", null, null],
      run_entries: (
        n,
        unique
      ) => [
        "run",
        String(n).padStart(4, "0"),
        "step",
        Number(unique.replace("last", "9999")),
        1,
        null,
        false,
        0,
        null,
        null,
        null
      ]
    }
    for (const [table, row] of Object.entries(rowsOf)) {
      const first = Array.from({ length: 700 }, (_, n) => row(n, n === 699 ? "last" : String(n)))
      const second = Array.from({ length: 600 }, (_, n) => row(n, n === 3 ? "last" : String(n)))
      await withTarget((target) => copy(target, table, first))
      const tables = await withTarget((target) => copy(target, table, second))
      expect(tables.find((one) => one.table === table), table).toMatchObject({ rows: 600 })
    }
  }, LIMIT)

  it("lets no node start that looks for an import while one begins", async () => {
    await Effect.runPromise(Migrate.migrate(options()))
    // Stops the import after it has looked for nodes, until the lock is free.
    await sql(
      `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NEW; END $$;
      CREATE TRIGGER hold BEFORE INSERT ON stint.settings FOR EACH ROW EXECUTE FUNCTION hold()`
    )
    const holder = await connect({ url, deadlineMs: LIMIT, prepare: false })
    await holder.query("SELECT pg_advisory_lock(42)")
    const imported = withTarget((target) => target.finish({ isBackup: true, settings: {} }))
    await waiting(1)
    let result: string | undefined
    const node = startNode().then(() => "started", (error: unknown) => String(error)).then((text) => (result = text))
    await waiting(2, () => result !== undefined)
    await holder.end()
    await imported.catch(() => {})
    expect(await node).toMatch(/has not finished|contains an import of a backup/)
  }, LIMIT)

  it("does not migrate the tables of a platform that it refuses, so that an older version can still start", async () => {
    const older = Migrations.LATEST - 1
    await sql(`CREATE SCHEMA stint; CREATE TABLE stint.settings (key text PRIMARY KEY, value text NOT NULL);
      INSERT INTO stint.settings VALUES ('version', '${older}'); ${Migrations.steps.slice(0, older).join(";")}`)
    const refusal = () => withTarget(() => Effect.void).then(() => "opened", String)
    const version = async () => (await sql("SELECT value FROM stint.settings WHERE key = 'version'"))[0]?.[0]
    await sql("INSERT INTO stint.endpoints VALUES ('red', '{}')")
    expect([await refusal(), await version()]).toEqual([expect.stringContaining("it is not empty: endpoints"), String(older)])
    await sql(
      "DELETE FROM stint.endpoints; INSERT INTO stint.nodes (no, started_at, seen_at) VALUES (1, now(), now() + interval '1 hour')"
    )
    expect([await refusal(), await version()]).toEqual([expect.stringContaining("a Stint node uses it"), String(older)])
    await sql("DELETE FROM stint.nodes")
    expect([await refusal(), await version()]).toEqual(["opened", String(Migrations.LATEST)])
  }, LIMIT)

  it("is interrupted at once, even while it connects or a statement waits", async () => {
    const mute = createServer(() => {}).listen(0, "127.0.0.1")
    await once(mute, "listening")
    const address = mute.address()
    const port = typeof address === "object" ? address?.port : 0
    const connecting = Effect.runFork(
      Effect.scoped(Import.open({ url: Redacted.make(`postgres://stint@127.0.0.1:${port}/none`) }, ORIGIN))
    )
    const [socket] = await once(mute, "connection")
    await Effect.runPromise(Fiber.interrupt(connecting))
    socket.destroy()
    mute.close()

    await Effect.runPromise(Migrate.migrate(options()))
    const holder = await connect({ url, deadlineMs: LIMIT, prepare: false })
    await holder.query("BEGIN")
    await holder.query("LOCK TABLE stint.settings")
    const opening = Effect.runFork(Effect.scoped(Import.open(options(), ORIGIN)))
    await waiting(1)
    await Effect.runPromise(Fiber.interrupt(opening))
    await holder.end()
  }, LIMIT)

  it("does not finish while a node uses the database, even one that seemed dead when the import began", async () => {
    await startNode()
    await sql("UPDATE stint.nodes SET seen_at = now() - interval '1 hour'")
    const finished = withTarget((target) =>
      Effect.andThen(
        Effect.promise(() => sql("UPDATE stint.nodes SET seen_at = now()")),
        target.finish({ isBackup: false, settings: {} })
      )
    )
    await expect(finished).rejects.toThrow(/a node has started during the import/)
  }, LIMIT)
})
