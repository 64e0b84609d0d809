/**
 * The PostgreSQL cluster of a test file, and empty databases in it.
 */
import { afterAll, beforeAll } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import { type ClusterOptions, execute, startCluster, type TestCluster } from "../src/testing.ts"

export { execute, missing } from "../src/testing.ts"

/** The cluster of a test file, which runs before its first test until after its last. */
export const testCluster = (options: ClusterOptions = {}): TestCluster => {
  let started: TestCluster | undefined
  const cluster = (): TestCluster => {
    if (started === undefined) throw new Error("the cluster is not running")
    return started
  }
  beforeAll(async () => {
    started = await startCluster(options)
  })
  afterAll(() => started?.stop())
  return {
    get folder() {
      return cluster().folder
    },
    run: (...command) => cluster().run(...command),
    url: (database) => cluster().url(database),
    ctl: (...args) => cluster().ctl(...args),
    stop: () => cluster().stop()
  }
}

const RESET = `DO $$ DECLARE t text; BEGIN
  FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'stint' AND tablename <> 'settings' LOOP
    EXECUTE 'DELETE FROM stint.' || t;
  END LOOP;
END $$`

/** Empty databases of a cluster. A database that a test has used is emptied and used again. */
export const makeDatabases = (cluster: TestCluster) => {
  const free: Array<string> = []
  let made = 0

  const acquire = Effect.promise(async () => {
    const known = free.pop()
    if (known !== undefined) return known
    made += 1
    const name = `test${made}`
    await execute(cluster.url("postgres"), `CREATE DATABASE ${name}`)
    return name
  })

  const release = (name: string) =>
    Effect.promise(async () => {
      await execute(cluster.url(name), RESET)
      free.push(name)
    })

  /** The address of an empty database. */
  const url = Effect.map(Effect.acquireRelease(acquire, release), cluster.url)

  return {
    url,
    /** A node with an empty database. */
    layer: Layer.unwrap(Effect.map(url, (address) => PostgresDatabase.layer({ url: Redacted.make(address) })))
  }
}
