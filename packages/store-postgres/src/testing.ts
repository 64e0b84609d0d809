/**
 * For tests: a PostgreSQL cluster in a temporary folder, reachable through a socket in it. Debian's package `postgresql` contains the
 * programs. `initdb` refuses to run as root, so root starts them as the user `postgres`.
 */
import { execFileSync, spawn } from "node:child_process"
import { appendFileSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { Client } from "pg"

const ROOT = "/usr/lib/postgresql"

/** The newest installed version. */
const programs = (): string | undefined => {
  if (!existsSync(ROOT)) return undefined
  const versions = readdirSync(ROOT).filter((name) => existsSync(join(ROOT, name, "bin", "initdb"))).map(Number)
  return versions.length === 0 ? undefined : join(ROOT, String(Math.max(...versions)), "bin")
}

/** Why the tests cannot run; undefined if they can. */
export const missing: string | undefined = programs() === undefined
  ? `skipped: there is no PostgreSQL in ${ROOT} (Debian: apt-get install postgresql)`
  : undefined

const isRoot = process.getuid?.() === 0

const uidOfPostgres = (flag: "-u" | "-g"): number => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }))

/** Runs a program of PostgreSQL, or the one at an absolute path, as the user of the server. */
export type RunProgram = (program: string, ...args: ReadonlyArray<string>) => Promise<void>

/** A running cluster. */
export interface TestCluster {
  readonly folder: string
  readonly run: RunProgram
  readonly url: (database: string) => string
  /** Runs `pg_ctl`. */
  readonly ctl: (...args: ReadonlyArray<string>) => Promise<void>
  /** Stops it, if it runs, and removes its folder. */
  readonly stop: () => Promise<void>
}

/** How a cluster starts. */
export interface ClusterOptions {
  /** Whether commits are synced to disk. Default: no. */
  readonly fsync?: boolean
  /** Lines of the configuration. */
  readonly settings?: ReadonlyArray<string>
  /** Creates the data folder, for example from a backup. Default: `initdb`. */
  readonly prepare?: (run: RunProgram, data: string) => Promise<void>
}

/** Starts a cluster. */
export const startCluster = async ({ fsync = false, prepare, settings = [] }: ClusterOptions): Promise<TestCluster> => {
  const bin = programs()
  if (bin === undefined) throw new Error(missing)
  const folder = mkdtempSync(join(tmpdir(), "stint-pg-"))
  if (isRoot) chownSync(folder, uidOfPostgres("-u"), uidOfPostgres("-g"))
  const run: RunProgram = (program, ...args) => {
    const command = [resolve(bin, program), ...args]
    const [file = "", ...rest] = isRoot
      ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", ...command]
      : command
    return new Promise((resolve, reject) => {
      // Without pipes, because the server would inherit them from `pg_ctl` and keep them open.
      const child = spawn(file, rest, { stdio: "ignore", cwd: folder })
      child.once("error", reject)
      child.once(
        "exit",
        (code) => code === 0 ? resolve() : reject(new Error(`${program} failed with the code ${code}: see ${folder}`))
      )
    })
  }
  const data = join(folder, "data")
  const create = () =>
    run("initdb", "-D", data, "-U", "stint", "--auth=trust", "--encoding=UTF8", "--locale=C", ...(fsync ? [] : ["--no-sync"]))
  await (prepare === undefined ? create() : prepare(run, data))
  // Appended, because a copy of another cluster has settings. The last line of a setting applies.
  appendFileSync(
    join(data, "postgresql.auto.conf"),
    [
      "",
      "listen_addresses = ''",
      `unix_socket_directories = '${folder}'`,
      "max_connections = 100",
      ...(fsync ? [] : ["fsync = off", "synchronous_commit = off", "full_page_writes = off"]),
      "shared_buffers = 32MB",
      ...settings,
      ""
    ].join("\n")
  )
  const ctl = (...args: ReadonlyArray<string>) => run("pg_ctl", "-D", data, "-w", "-t", "60", "-l", join(folder, "log"), ...args)
  await ctl("start")
  return {
    folder,
    run,
    url: (database) => `postgres://stint@localhost/${database}?host=${encodeURIComponent(folder)}`,
    ctl,
    stop: async () => {
      if (existsSync(join(data, "postmaster.pid"))) await ctl("-m", "immediate", "stop")
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

/** Runs one statement. */
export const execute = async (url: string, text: string): Promise<ReadonlyArray<ReadonlyArray<unknown>>> => {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query<Array<unknown>>({ text, rowMode: "array" })
    return rows
  } finally {
    await client.end()
  }
}
