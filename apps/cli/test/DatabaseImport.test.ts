/**
 * `stint database import`, with a file that has rows in every table and a real PostgreSQL. Kills and running platforms are in
 * DatabaseImport.long.test.ts, random rows and faulty targets in packages/store/test/Transfer.test.ts.
 */
import { EndpointId, JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import * as Postgres from "@stint/store-postgres"
import { execute, missing, startCluster, type TestCluster } from "@stint/store-postgres/testing"
import * as Sqlite from "@stint/store-sqlite"
import * as TransferRows from "@stint/store-sqlite/TransferRows"
import { Scenario } from "@stint/store-testing"
import { BatchStore } from "@stint/store/BatchStore"
import { JobStore } from "@stint/store/JobStore"
import { type StoredTable, TABLES } from "@stint/store/StoredTables"
import type { TransferredTable } from "@stint/store/Transfer"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { createHash } from "node:crypto"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest"
import { columnsOf, expectKept } from "../../../packages/store-sqlite/test/KeptRows.ts"
import { type Finished, runCommand } from "./CommandInProcess.ts"

const SCHEMAS = resolve(import.meta.dirname, "../../../packages/store-sqlite/test/fixtures/schemas")

/** The application id of Stint's files. */
const APPLICATION = 0x5354494e

/** What the fixture does not have: text that PostgreSQL stores escaped, nested runs, and ids that UTF-16 orders differently. */
const MORE = `
  UPDATE outcomes SET error = 'no' || char(0) || 'city ' || char(63742) WHERE seq = 3;
  UPDATE deliveries SET url = 'https://example.com/' || char(0) || char(63742) WHERE seq = 1;
  UPDATE audit SET target = 'key/' || char(0) WHERE id = 2;
  UPDATE runs SET held = 'held' || char(0) WHERE run = 'other-run';
  INSERT INTO run_children VALUES ('other-run', 'blue', 'run', 'nested');
  INSERT INTO removed_endpoints VALUES (char(65533)), (char(128512));
  INSERT INTO job_logs VALUES (3, 1, 1, 7);
`

describe("the tables of an import", () => {
  const file = join(mkdtempSync(join(tmpdir(), "stint-import-")), "stint.db")
  afterAll(() => rmSync(resolve(file, ".."), { recursive: true, force: true }))

  /** Columns that need no copy, because their values follow from others. */
  const DERIVED = new Set(["jobs.due_at", "batches.due_at", "inputs.seq", "outcomes.seq", "delivery_bodies.seq"])

  it("are all tables and columns of the file, or are named with a reason", async () => {
    await Effect.runPromise(Effect.scoped(Layer.build(Sqlite.layer({ file }))))
    const statements = TABLES.map(TransferRows.statementOf)
    const copied = new Map(statements.flatMap(({ sql, tables }) => tables.map((table) => [table, sql] as const)))
    const columns = columnsOf(file)
    expect([...columns.keys()].filter((table) => !copied.has(table)).sort()).toEqual(Object.keys(TransferRows.NOT_COPIED).sort())
    const missing = [...copied].flatMap(([table, sql]) =>
      (columns.get(table) ?? [`${table} does not exist`]).filter((column) =>
        !DERIVED.has(`${table}.${column}`) && !new RegExp(`\\b${column}\\b`).test(sql)
      ).map((column) => `${table}.${column}`)
    )
    expect(missing).toEqual([])
  })
})

describe.skipIf(missing !== undefined)(missing ?? "stint database import", () => {
  let cluster: TestCluster
  let folder: string
  let url: string
  let databases = 0

  beforeAll(async () => {
    cluster = await startCluster({})
  }, 120_000)
  afterAll(() => cluster?.stop(), 120_000)

  const write = (schema = "v28.sql", more = MORE) => {
    const db = new DatabaseSync(join(folder, "stint.db"))
    db.exec(`PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA application_id = ${APPLICATION}`)
    db.exec(readFileSync(join(SCHEMAS, schema), "utf8"))
    db.exec(more)
    db.close()
  }
  const change = (sql: string) => {
    const db = new DatabaseSync(join(folder, "stint.db"))
    db.exec(sql)
    db.close()
  }
  const digest = () => createHash("sha256").update(readFileSync(join(folder, "stint.db"))).digest("hex")
  const sql = (text: string) => execute(url, text)

  const importInto = (address = url, ...flags: ReadonlyArray<string>): Promise<Finished> =>
    runCommand(["database", "import", "--from", folder, ...flags], { env: { STINT_DATABASE: address } })
  const imported = async (): Promise<ReadonlyArray<TransferredTable>> => {
    const { code, stderr, stdout } = await importInto(url, "--json")
    expect([code, code === 0 ? "" : stderr]).toEqual([0, ""])
    return JSON.parse(stdout).tables
  }
  const refusal = async (address = url) => {
    const { code, stderr } = await importInto(address)
    expect(code).toBe(1)
    return stderr
  }
  const node = () => Postgres.layer({ url: Redacted.make(url) })
  const onNode = <A, E>(program: Effect.Effect<A, E, Layer.Success<ReturnType<typeof node>>>): Promise<A> =>
    Effect.runPromise(Effect.provide(program, node()))

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "stint-import-"))
    databases += 1
    await execute(cluster.url("postgres"), `CREATE DATABASE import${databases}`)
    url = cluster.url(`import${databases}`)
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  it("copies every row of every table so that a node can read it through its stores, and does not change the file", async () => {
    write()
    const before = digest()
    const tables = await imported()
    expect(tables.map(({ table }) => table)).toEqual(TABLES.map(({ name }) => name))
    expect(tables.filter(({ orphans, rows }) => rows === 0 || orphans > 0)).toEqual([])
    expect(digest()).toBe(before)
    const columns = columnsOf(join(folder, "stint.db"))
    change(`UPDATE outcomes SET error = 'no such city' WHERE seq = 3`)
    expect((await sql(`SELECT error FROM stint.ended WHERE id = 'ended'`))[0]).toEqual(["no\uF8FE0city \uF8FE1"])
    await sql(`UPDATE stint.ended SET error = 'no such city' WHERE id = 'ended';
      UPDATE stint.runs SET held = 'another definition' WHERE run = 'other-run'`)
    await onNode(Effect.gen(function*() {
      yield* expectKept(columns)
      const store = yield* JobStore
      const [red, blue] = [EndpointId.make("red"), EndpointId.make("blue")]
      expect(yield* store.depth(red)).toMatchObject({ waiting: 1, delayed: 0, running: 1, failed: 1 })
      expect(yield* store.depth(blue)).toMatchObject({ waiting: 1, delayed: 2, completed: 1, isolated: 1, retried: 1 })
      expect((yield* store.drain(red, JobId.make("running"), 10))?.chunks.map(String)).toEqual([`"chunk"`])
      expect((yield* (yield* WebhookStore).get(blue, "01-delivered"))?.url).toBe("https://example.com/\0\uF8FE")
      const tagged = yield* store.list(red, { limit: 10, tag: "blue" })
      expect(tagged.jobs.map(({ id }) => String(id))).toEqual(["waiting", "running", "ended"])
      expect(yield* (yield* BatchStore).list(blue, 0, 10)).toHaveLength(1)
      // New numbers follow the copied ones.
      yield* store.insert(Scenario.record({ endpoint: red }))
    }))
    expect(await sql("SELECT count(*)::int FROM stint.jobs WHERE seq > 10")).toEqual([[1]])
    // `seq` is the turn of its slot.
    expect(await sql("SELECT seq::int FROM stint.running WHERE id = 'slot'")).toEqual([[1]])
    const [roots] = await sql("SELECT array_agg(DISTINCT root) FROM stint.runs")
    expect(roots).toEqual([["run"]])
  }, 120_000)

  it("fills every table and column of the database, except those that nodes write", async () => {
    write()
    await imported()
    /** Tables that a copy does not fill, and why. */
    const others = {
      settings: "the version of the tables, and what all nodes share",
      nodes: "the nodes, and the one under which copied jobs are counted",
      tallies: "counted again",
      run_cancels: "children that a node cancels later; SQLite cancels them at once",
      text_words: "the index of words, which a node builds",
      text_state: "the same"
    }
    const rows = await sql(
      `SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = 'stint'`
    )
    const named = new Map(TABLES.map((table) => [table.name, new Set(Object.keys(table.columns))]))
    const isCopied = (table: string) => named.has(table) || ["ready", "delayed", "running", "ended"].includes(table)
    expect([...new Set(rows.map(([table]) => String(table)).filter((table) => !isCopied(table)))].sort())
      .toEqual(Object.keys(others).sort())
    const empty: Array<string> = []
    for (const [table, column] of rows.filter(([table]) => isCopied(String(table)))) {
      const [found] = await sql(`SELECT count("${String(column)}")::int FROM stint.${String(table)}`)
      if (found?.[0] === 0) empty.push(`${String(table)}.${String(column)}`)
    }
    // Jobs in one state may lack a value, but jobs in some state have it.
    expect(empty.filter((name) => !/^(ready|delayed|running|ended)\./.test(name))).toEqual([])
    const states = ["ready", "delayed", "running", "ended"]
    const everywhere = empty.filter((name) => states.every((state) => empty.includes(name.replace(/^\w+/, state))))
    expect([...new Set(everywhere.map((name) => name.replace(/^\w+\./, "")))]).toEqual([])
  }, 60_000)

  it("counts stored bytes and log lines as a node does", async () => {
    write()
    await imported()
    const [bytes] = await sql(
      `SELECT (SELECT sum(bytes)::int FROM stint.tallies WHERE scope = 'logs'), (SELECT sum(bytes)::int FROM stint.job_logs),
         (SELECT sum(bytes)::int FROM stint.tallies WHERE scope = 'endpoint'),
         (SELECT sum(input_bytes)::int FROM stint.jobs) + (SELECT sum(bytes)::int FROM stint.job_logs) +
         (SELECT sum(outcome_bytes + chunk_bytes)::int FROM (SELECT outcome_bytes, chunk_bytes FROM stint.ready UNION ALL
           SELECT outcome_bytes, chunk_bytes FROM stint.delayed UNION ALL SELECT outcome_bytes, chunk_bytes FROM stint.running UNION ALL
           SELECT outcome_bytes, chunk_bytes FROM stint.ended) s)`
    )
    const [logs, storedLogs, all, storedAll] = bytes ?? []
    expect([logs, all]).toEqual([storedLogs, storedAll])
    const [chunks] = await sql(`SELECT chunk_bytes FROM stint.running WHERE id = 'running'`)
    expect(Number(chunks?.[0])).toBe(Buffer.byteLength(`"chunk"`))
  }, 60_000)

  it("writes only what has changed since an earlier import, and removes what is gone", async () => {
    write()
    await imported()
    change(`UPDATE jobs SET status = 'COMPLETED', finished_at = 5000, lease_expires_at = NULL WHERE id = 'running';
      DELETE FROM deliveries WHERE seq = 1; DELETE FROM delivery_bodies WHERE seq = 1`)
    const tables = await imported()
    const changed = tables.filter((one) => one.changed > 0).map((one) => [one.table, one.changed])
    expect(changed).toEqual([["jobs", 1], ["deliveries", 1]])
    expect(await sql(`SELECT count(*)::int FROM stint.running WHERE id = 'running'`)).toEqual([[0]])
    expect((await imported()).filter((one) => one.changed > 0)).toEqual([])
    expect(await sql("SELECT sum(completed)::int, sum(running)::int FROM stint.tallies WHERE scope = 'endpoint'")).toEqual([[
      2,
      1
    ]])
  }, 60_000)

  it("stores a page as a whole or not at all, and continues there after a failure", async () => {
    write()
    await runCommand(["database", "migrate"], { env: { STINT_DATABASE: url } })
    await sql(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room'; END $$;
      CREATE TRIGGER refuse BEFORE INSERT ON stint.ended FOR EACH ROW EXECUTE FUNCTION refuse()`)
    expect(await refusal()).toMatch(/The target did not store rows of the table jobs: no room\.[^]*it continues where it stopped/)
    expect(await sql("SELECT (SELECT count(*)::int FROM stint.jobs), (SELECT count(*)::int FROM stint.endpoints)")).toEqual([[
      0,
      2
    ]])
    await sql("DROP TRIGGER refuse ON stint.ended")
    const tables = await imported()
    const written = new Map(tables.map(({ changed, table }) => [table, changed]))
    expect([written.get("endpoints"), written.get("jobs")]).toEqual([0, 10])
  }, 60_000)

  it("repairs every row that was lost, changed or duplicated in the target, in every table", async () => {
    write()
    await imported()
    const damage = (table: StoredTable): string => {
      const [first = ""] = Object.keys(table.columns)
      const last = Object.entries(table.columns).findLast(([, type]) => type === "text")?.[0] ?? first
      return Object.keys(table.columns).length > table.keys && table.name !== "jobs" && table.name !== "batches"
        ? `UPDATE stint.${table.name} SET "${last}" = coalesce("${last}", '') || 'x'`
        : `DELETE FROM stint.${table.name}`
    }
    for (const table of TABLES.filter(({ name }) => name !== "usage_hours" && name !== "run_waits")) await sql(damage(table))
    await sql("DELETE FROM stint.ready; DELETE FROM stint.delayed; DELETE FROM stint.running; DELETE FROM stint.ended")
    await sql("INSERT INTO stint.run_waits SELECT * FROM stint.run_waits; UPDATE stint.usage_hours SET cpu_ms = cpu_ms + 1")
    const tables = await imported()
    expect(tables.filter(({ changed, rows }) => changed < rows).map(({ table }) => table)).toEqual([])
    // A job must be in only one of the state tables.
    await sql(
      "INSERT INTO stint.ready SELECT * FROM stint.delayed; UPDATE stint.ended SET output = '{\"n\":6}' WHERE id = 'done'"
    )
    expect((await imported()).filter(({ changed }) => changed > 0)).toMatchObject([{ table: "jobs", changed: 5 }])
    expect(await sql("SELECT id FROM stint.ready ORDER BY 1")).toEqual([["step-child"], ["waiting"]])
    expect((await imported()).filter(({ changed }) => changed > 0)).toEqual([])
  }, 60_000)

  it("starts no node after an unfinished import or a backup's, and imports nothing after a node has started", async () => {
    write()
    writeFileSync(join(folder, "stint-backup.json"), "{}")
    const { code, stdout } = await importInto()
    expect([code, stdout]).toEqual([0, expect.stringContaining("This was a backup, so what happened since is missing")])
    await expect(onNode(Effect.void)).rejects.toThrow(/contains an import of a backup, so the jobs since the backup are missing/)
    await sql(`UPDATE stint.settings SET value = replace(value, 'backup', 'unfinished') WHERE key = 'import'`)
    await expect(onNode(Effect.void)).rejects.toThrow(/has not finished. Run it again/)
    rmSync(join(folder, "stint-backup.json"))
    const finished = await importInto()
    expect(finished.stdout).toMatch(/counts and checksums are the same[^]+jobs +10 +0 +[0-9a-f]{16}[^]+mv .*stint\.db /)
    await onNode(Effect.void)
    await sql(`UPDATE stint.nodes SET seen_at = now() - interval '1 hour'`)
    expect(await refusal()).toContain("a node has used it since an import")
    await sql(`DELETE FROM stint.settings WHERE key = 'import'; UPDATE stint.nodes SET seen_at = now()`)
    expect(await refusal()).toContain("a Stint node uses it")
  }, 60_000)

  it("refuses another platform, a database with rows, newer tables and a user without privileges", async () => {
    write()
    await sql("CREATE ROLE reader LOGIN")
    const asReader = url.replace("stint@", "reader@")
    expect(await refusal(asReader)).toContain("The user of the address must own the database")
    await imported()
    await sql("GRANT USAGE ON SCHEMA stint TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA stint TO reader")
    expect(await refusal(asReader)).toContain(
      "the user of the address may not change audit, audit_id_seq, batch_requests and others"
    )
    change("UPDATE upgrades SET at = at + 1")
    expect(await refusal()).toContain("it contains an import of another platform")
    await sql("DELETE FROM stint.settings WHERE key = 'import'")
    expect(await refusal()).toContain("it is not empty: endpoints, removed_endpoints, releases and other tables have rows")
    await sql("UPDATE stint.settings SET value = '99' WHERE key = 'version'")
    expect(await refusal()).toContain("have version 99")
    expect(await refusal("postgres://stint@127.0.0.1:1/none")).toContain("No connection to PostgreSQL at 127.0.0.1:1/none")
  }, 60_000)

  it("refuses a running platform, an older or newer file, a damaged one and a folder without one", async () => {
    expect(await refusal()).toContain("it has no file stint.db")
    write()
    const layer = Sqlite.layer({ file: join(folder, "stint.db") })
    const running = Effect.andThen(Layer.build(layer), Effect.promise(() => refusal()))
    expect(await Effect.runPromise(Effect.scoped(running))).toMatch(/is in use by [^]*Stop the platform with SIGTERM/)
    change("PRAGMA user_version = 24")
    expect(await refusal()).toMatch(/have version 24; [^]*Start the platform once with this version/)
    change("PRAGMA user_version = 99")
    expect(await refusal()).toContain("was written by a newer Stint")
    writeFileSync(join(folder, "stint.db"), "not a database".repeat(1_000))
    expect(await refusal()).toContain("is damaged: file is not a database")
    expect(await sql("SELECT to_regnamespace('stint')")).toEqual([[null]])
  }, 60_000)

  it("names a row that cannot be read, and one that PostgreSQL cannot store", async () => {
    write()
    change("UPDATE jobs SET status = 'LOST' WHERE id = 'waiting'")
    expect(await refusal()).toMatch(/The table jobs of the source cannot be read: a row of job waiting is invalid/)
    change("UPDATE jobs SET status = 'IN_QUEUE' WHERE id = 'waiting'; UPDATE audit SET name = 'a' || char(0) WHERE id = 2")
    expect(await refusal()).toMatch(
      /cannot store a row of the table audit: the column name of the row \[2\] contains a NUL character\.[^]*Correct or delete this row/
    )
  }, 60_000)

  it("copies the location of large payloads in a bucket, and refuses payloads in a folder", async () => {
    write()
    const record = (location: string) =>
      writeFileSync(join(folder, "payloads.json"), JSON.stringify({ owner: "stint-1", location }))
    record("dir:/srv/payloads")
    // A node would neither start with this record nor accept the folder.
    expect((await importInto()).stdout).toMatch(
      /1\. Delete .*payloads\.json and unset STINT_PAYLOADS[^]*2\. Start[^]*3\. Make sure/
    )
    expect(await sql("SELECT 1 FROM stint.settings WHERE key = 'shared.payloads'")).toEqual([])
    change("UPDATE inputs SET input = char(1) || 'stint-1/red/a 5 digest' || char(1) WHERE seq = 1")
    expect(await refusal()).toMatch(/Large payloads of this platform are in dir:\/srv\/payloads[^]*Copy everything below stint-1/)
    record("s3://bucket/prefix")
    await imported()
    const [row] = await sql("SELECT value FROM stint.settings WHERE key = 'shared.payloads'")
    expect(JSON.parse(String(row?.[0]))).toEqual({ owner: "stint-1", location: "s3://bucket/prefix" })
  }, 60_000)

  it("says what to do without a database", async () => {
    const { code, stderr } = await runCommand(["database", "import", "--from", folder], { env: {} })
    expect([code, stderr]).toEqual([1, expect.stringContaining("STINT_DATABASE is not set")])
  })

  it("stores texts of every kind exactly as in the file", async () => {
    write()
    const texts = ["\u{1F600}", "\uFFFD", "\uF8FE", "\\", "\"{},NULL", "'\n\t", "x".repeat(300_000)]
    const db = new DatabaseSync(join(folder, "stint.db"))
    db.exec(`DELETE FROM inputs; DELETE FROM jobs; DELETE FROM tags`)
    const head = db.prepare(
      `INSERT INTO jobs (seq, id, endpoint, status, low_priority, created_at, queued_at, expires_at, execution_timeout_ms, lease_ms, max_attempts,
         retention_ms, attempt, retries, chunks, drained, due_at, ttl_ms) VALUES (?, ?, 'red', 'IN_QUEUE', 0, 1, 1, 61, 30, 5, 2, 9, 0, 0, 0, 0, 61, 60)`
    )
    for (const [seq, text] of texts.entries()) {
      head.run(seq + 1, `job-${seq}`)
      db.prepare("INSERT INTO inputs (seq, input) VALUES (?, ?)").run(seq + 1, JSON.stringify(text))
    }
    db.close()
    await imported()
    const stored = await onNode(Effect.gen(function*() {
      const store = yield* JobStore
      return yield* Effect.forEach(texts, (_, seq) => store.input(EndpointId.make("red"), JobId.make(`job-${seq}`)))
    }))
    expect(stored).toEqual(texts.map((text) => toJsonText(text)))
  }, 60_000)
})
