/**
 * For tests: a PostgreSQL cluster in a temporary folder, reachable through a socket in it. Debian's package `postgresql` contains the
 * programs. `initdb` refuses to run as root, so root starts them as the user `postgres`.
 */
import { execFileSync, spawn } from "node:child_process"
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
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

/** A running cluster. */
export interface TestCluster {
  readonly folder: string
  readonly url: (database: string) => string
  /** Runs `pg_ctl`. */
  readonly ctl: (...args: ReadonlyArray<string>) => Promise<void>
  readonly stop: () => Promise<void>
}

/** Starts a cluster. `fsync`: whether commits are synced to disk. */
export const startCluster = async ({ fsync = false }: { readonly fsync?: boolean }): Promise<TestCluster> => {
  const bin = programs()
  if (bin === undefined) throw new Error(missing)
  const folder = mkdtempSync(join(tmpdir(), "stint-pg-"))
  if (isRoot) chownSync(folder, uidOfPostgres("-u"), uidOfPostgres("-g"))
  const run = (program: string, args: ReadonlyArray<string>): Promise<void> => {
    const command = [join(bin, program), ...args]
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
  await run("initdb", [
    "-D",
    data,
    "-U",
    "stint",
    "--auth=trust",
    "--encoding=UTF8",
    "--locale=C",
    ...(fsync ? [] : ["--no-sync"])
  ])
  writeFileSync(
    join(data, "postgresql.auto.conf"),
    [
      "listen_addresses = ''",
      `unix_socket_directories = '${folder}'`,
      "max_connections = 100",
      ...(fsync ? [] : ["fsync = off", "synchronous_commit = off", "full_page_writes = off"]),
      "shared_buffers = 32MB"
    ].join("\n")
  )
  const ctl = (...args: ReadonlyArray<string>) =>
    run("pg_ctl", ["-D", data, "-w", "-t", "60", "-l", join(folder, "log"), ...args])
  await ctl("start")
  return {
    folder,
    url: (database) => `postgres://stint@localhost/${database}?host=${encodeURIComponent(folder)}`,
    ctl,
    stop: async () => {
      await ctl("-m", "immediate", "stop")
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
