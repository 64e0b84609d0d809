/**
 * `stint doctor` checks a platform's database without changing it (docs/operations/many-nodes.md), and the container engine of this machine
 * (docs/operations/containers.md#the-engine).
 */
import type { Doctor } from "@stint/store-postgres"
import * as StoppedDatabase from "@stint/store-sqlite/StoppedDatabase"
import { Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { existsSync, statfsSync } from "node:fs"
import { join, resolve } from "node:path"
import { DATABASE } from "../backup/BackupFormat.ts"
import { CliFailure } from "../CliFailure.ts"
import * as DatabaseConfig from "../config/DatabaseConfig.ts"
import * as PlatformConfig from "../config/PlatformConfig.ts"
import * as Output from "../output/Output.ts"
import * as DatabaseStores from "../platform/DatabaseStores.ts"
import * as Project from "../plugins/Project.ts"
import { json } from "./SharedFlags.ts"

/** What was examined, and the findings. */
interface Examination {
  readonly database: string
  readonly findings: ReadonlyArray<Doctor.Finding>
}

const examineDatabase = (url: Redacted.Redacted): Effect.Effect<Examination, CliFailure> =>
  Effect.flatMap(DatabaseStores.load, ({ Doctor }) => Doctor.examine({ url }))

/** Below this, new jobs are soon rejected (`STINT_DISK_MIN_FREE`). */
const MIN_FREE = 1024 * 1_048_576

const checkDisk = (folder: string): Doctor.Finding => {
  const { bavail, bsize } = statfsSync(folder)
  const free = bavail * bsize
  const found = `${Math.floor(free / 1_048_576)} MiB are free`
  return free < MIN_FREE
    ? { check: "disk", state: "failed", found, advice: "Free space: with less than 512 MiB, new jobs are rejected." }
    : { check: "disk", state: "ok", found, advice: "" }
}

/** The database in a data folder. A running platform has locked the file, and checks it itself. */
const examineFolder = (dataDir: string): Effect.Effect<Examination> => {
  const file = join(dataDir, DATABASE)
  return StoppedDatabase.check(file).pipe(
    Effect.match({
      onSuccess: (): Doctor.Finding => ({ check: "file", state: "ok", found: "undamaged; no platform is running", advice: "" }),
      onFailure: ({ message, reason }): Doctor.Finding =>
        reason._tag === "FileLocked"
          ? { check: "file", state: "ok", found: `used by ${reason.holder ?? "a platform"}, which checks it`, advice: "" }
          : { check: "file", state: "failed", found: message, advice: "" }
    }),
    Effect.map((found) => ({
      database: file,
      findings: found.state === "failed" ? [found] : [found, checkDisk(dataDir)]
    }))
  )
}

/** Read when there is no `--config`. */
const DEFAULT_CONFIG = "stint.config.ts"

/** The endpoints of a configuration whose workers are containers. */
const containersOf = (config: string) =>
  Effect.map(
    Project.load(config),
    ({ endpoints }) => endpoints.flatMap(({ id, source }) => source.type === "container" ? [{ id, gpus: source.gpus }] : [])
  )

/** The configuration, if it cannot be read, and the engine, if one is needed or there. */
const examineEngine = Effect.fnUntraced(function*(config: Option.Option<string>, socket: string | undefined) {
  const file = Option.getOrUndefined(config) ?? (existsSync(DEFAULT_CONFIG) ? DEFAULT_CONFIG : undefined)
  const containers = yield* Effect.result(file === undefined ? Effect.succeed([]) : containersOf(file))
  const problems: ReadonlyArray<Doctor.Finding> = containers._tag === "Success" ? [] : [
    { check: "configuration", state: "failed", found: containers.failure.message, advice: containers.failure.hint }
  ]
  const { EngineCheck } = yield* Effect.promise(() => import("@stint/pool-container"))
  const report = yield* EngineCheck.examine(socket, containers._tag === "Success" ? containers.success : [])
  if (report === undefined) return problems
  const { advice, found, usable } = report
  return [...problems, { check: "engine", state: usable ? "ok" : "failed", found, advice } satisfies Doctor.Finding]
})

const STATES = { ok: "ok", failed: "FAILED", skipped: "-" } as const

/** One line for each check, followed by what to do. */
const format = ({ database, findings }: Examination): string => {
  const width = Math.max(...findings.map(({ check }) => check.length))
  const lines = findings.flatMap(({ advice, check, found, state }) => [
    `${STATES[state].padEnd(6)}  ${check.padEnd(width)}  ${Output.inline(found)}`,
    ...(advice === "" ? [] : advice.split("\n").map((line) => `${" ".repeat(width + 10)}${Output.inline(line)}`))
  ])
  return [Output.inline(database), ...lines].join("\n")
}

/** `stint doctor`. */
export const command = Command.make(
  "doctor",
  {
    database: Flag.String("database").pipe(
      Flag.withDescription("The PostgreSQL database to check. Default: STINT_DATABASE, or the data folder (STINT_DATA_DIR)"),
      Flag.optional
    ),
    config: Flag.String("config").pipe(
      Flag.withDescription(
        "The configuration whose endpoints the engine must be able to run. Default: stint.config.ts, if it exists"
      ),
      Flag.optional
    ),
    json
  },
  Effect.fnUntraced(function*({ config, database: flag, json }) {
    const settings = yield* PlatformConfig.load
    const url = yield* DatabaseConfig.resolve(flag, settings)
    const { database, findings } = yield* (url === undefined ? examineFolder(resolve(settings.dataDir)) : examineDatabase(url))
    // Pods run in a cluster, which has engines of its own.
    const engine = settings.kubernetes === undefined ? yield* examineEngine(config, settings.engine.socket) : []
    const examination = { database, findings: [...findings, ...engine] }
    yield* Output.print(json, examination, format)
    const failed = examination.findings.filter(({ state }) => state === "failed").length
    if (failed > 0) {
      return yield* new CliFailure({
        message: `${failed} of ${examination.findings.length} checks failed.`,
        hint: "",
        code: "doctor-failed"
      })
    }
  })
).pipe(
  Command.withDescription(
    "Check the database (versions, clocks, indexes, dead rows, transactions, notifications, settings) and the container engine"
  ),
  Command.withExamples([
    { command: "stint doctor", description: "Check the database of STINT_DATABASE, or otherwise the data folder" },
    { command: "stint doctor --database postgres://stint@db.internal/stint", description: "Check a PostgreSQL database" }
  ])
)
