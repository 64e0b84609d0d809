/**
 * Settings for the worker processes that the platform starts. If a value is invalid, the platform does not start, and the error names the
 * variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_WORKER_ENV` | none | variables of the platform that workers inherit in addition to the default ones, comma-separated: `DATABASE_URL, BUCKET_*`. Every endpoint's handler sees them; an endpoint's own `env` is narrower |
 * | `STINT_WORKER_USER` | the platform's user | user that workers run as: a name, `UID:GID`, or a range of ids like `200000-265535`, from which each endpoint gets its own. Handlers then cannot read the platform's files, memory and environment; with a range, nor those of other endpoints. Needs a platform that runs as root |
 * | `STINT_CACHE_DIR` | the data folder; with `STINT_WORKER_USER`, a folder in `/var/cache/stint` | folder for the handlers' bundles and their compile cache |
 * | `STINT_SPARE_WORKERS` | 0 | processes that wait for the next worker of a handler, 0 to 100. Each shortens a cold start and occupies memory all the time |
 * | `STINT_LOCAL_WORKERS` | no limit | maximum number of workers on the platform's machine, 0 to 10,000. 0: only agents run workers (docs/operations/agents.md) |
 * | `STINT_LOCAL_CPUS` | the machine's | CPUs that endpoints with `cpus` may reserve together on the platform's machine. A higher number lets them overlap |
 * | `STINT_LOCAL_MEMORY` | the machine's | memory that endpoints with `memory` may reserve together on the platform's machine, such as `200 GiB` |
 * | `STINT_LOCAL_GPUS` | those of the NVIDIA driver | number of GPUs that endpoints with `gpus` may reserve together on the platform's machine, 0 to 64 |
 * | `STINT_LOCAL_LABELS` | none | labels of the platform's machine, as `name=value`, comma-separated. Endpoints with `placement.labels` run only on machines that have these labels (docs/operations/agents.md) |
 */
import type { Labels } from "@stint/contract/Placement"
import type { WorkerUser } from "@stint/pool-process/WorkerUser"
import type { WorkerIds } from "@stint/pool-process/WorkerUsers"
import type { MachineCapacity } from "@stint/pool/MachineReservations"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { readFile } from "node:fs/promises"
import { join, relative, resolve } from "node:path"
import process from "node:process"
import { promisify } from "node:util"
import { CliFailure } from "../CliFailure.ts"
import * as LabelText from "./LabelText.ts"
import * as Machine from "./Machine.ts"
import { optionalSize } from "./PayloadConfig.ts"
import { commaSeparated, setting } from "./Setting.ts"

/** The settings, as text. */
export interface WorkerSettings {
  readonly inherit: ReadonlyArray<string>
  readonly user: Option.Option<string>
  readonly cacheDir: Option.Option<string>
  readonly spare: number
  readonly localWorkers: Option.Option<number>
  readonly localLabels: Labels
  readonly localCpus: Option.Option<number>
  /** Bytes. */
  readonly localMemory: number | undefined
  readonly localGpus: Option.Option<number>
}

/** The settings, checked against this machine. */
export interface WorkerOptions {
  readonly inherit: ReadonlyArray<string>
  readonly user: WorkerUser | WorkerIds | undefined
  readonly cacheDir: string
  readonly spare: number
  /** Default: no limit. */
  readonly localWorkers?: number | undefined
  /** Default: none. */
  readonly localLabels?: Labels | undefined
  /** What the platform's machine has for workers. Default: no limit. */
  readonly capacity?: MachineCapacity | undefined
}

const Names = Schema.String.check(
  Schema.makeFilter((text) =>
    commaSeparated(text).every((one) => /^(?:[A-Za-z_]\w*\*?|\*)$/.test(one)) || "comma-separated names of variables"
  )
)

const Spare = Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 0, maximum: 100 }))

const LocalWorkers = Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 0, maximum: 10_000 }))

const LocalCpus = Schema.FiniteFromString.check(Schema.isBetween({ minimum: 0, maximum: 65_536 }))

const LocalGpus = Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 0, maximum: 64 }))

const LabelList = Schema.String.check(
  Schema.makeFilter((text) => Option.isSome(LabelText.parse(commaSeparated(text))) || "comma-separated labels")
)

const User = Schema.String.check(
  Schema.isPattern(/^(?:\d+:\d+|\d+-\d+|[A-Za-z_][\w.-]*\$?)$/, {
    message: "Expected the name of a user, UID:GID, or a range FIRST-LAST"
  })
)

/** Reads the settings. Fails on the first invalid setting. */
export const load: Effect.Effect<WorkerSettings, CliFailure> = Effect.all({
  inherit: setting(
    "STINT_WORKER_ENV",
    "comma-separated names of variables, for example DATABASE_URL, BUCKET_*",
    Config.schema(Names, "STINT_WORKER_ENV").pipe(Config.withDefault(""), Config.map(commaSeparated))
  ),
  user: setting(
    "STINT_WORKER_USER",
    "the name of a user, UID:GID, or a range of ids, for example nobody, 1001:1001 or 200000-265535",
    Config.option(Config.schema(User, "STINT_WORKER_USER"))
  ),
  cacheDir: setting(
    "STINT_CACHE_DIR",
    "a folder, for example /var/cache/stint",
    Config.option(Config.NonEmptyString("STINT_CACHE_DIR"))
  ),
  spare: setting(
    "STINT_SPARE_WORKERS",
    "a whole number from 0 to 100",
    Config.schema(Spare, "STINT_SPARE_WORKERS").pipe(Config.withDefault(0))
  ),
  localWorkers: setting(
    "STINT_LOCAL_WORKERS",
    "a whole number from 0 to 10000",
    Config.option(Config.schema(LocalWorkers, "STINT_LOCAL_WORKERS"))
  ),
  localCpus: setting(
    "STINT_LOCAL_CPUS",
    "a number from 0 to 65536",
    Config.option(Config.schema(LocalCpus, "STINT_LOCAL_CPUS"))
  ),
  localMemory: optionalSize("STINT_LOCAL_MEMORY", "200 GiB"),
  localGpus: setting(
    "STINT_LOCAL_GPUS",
    "a whole number from 0 to 64",
    Config.option(Config.schema(LocalGpus, "STINT_LOCAL_GPUS"))
  ),
  localLabels: setting(
    "STINT_LOCAL_LABELS",
    `comma-separated ${LabelText.SHAPE}`,
    Config.schema(LabelList, "STINT_LOCAL_LABELS").pipe(
      Config.withDefault(""),
      Config.map((text): Labels => Option.getOrElse(LabelText.parse(commaSeparated(text)), () => ({})))
    )
  )
})

const run = promisify(execFile)

/** The line in the user database for a name or an id. `getent` also knows users from LDAP and other services, but macOS does not have it. */
const passwdLine = async (key: string): Promise<string | undefined> => {
  try {
    return (await run("getent", ["passwd", key])).stdout.split("\n")[0]
  } catch {
    const lines = (await readFile("/etc/passwd", "utf8").catch(() => "")).split("\n")
    return lines.find((line) => line.split(":")[0] === key || line.split(":")[2] === key)
  }
}

const failure = (user: string, problem: string, hint: string) =>
  new CliFailure({ message: `The variable STINT_WORKER_USER is ${JSON.stringify(user)}: ${problem}.`, hint })

/** The highest user id. The next one means "no user". */
const MAX_ID = 2 ** 32 - 2

const rangeOf = (text: string): WorkerIds | CliFailure | undefined => {
  const [, first, last] = /^(\d+)-(\d+)$/.exec(text) ?? []
  if (first === undefined || last === undefined) return undefined
  const ids = { first: Number(first), last: Number(last) }
  if (ids.first === 0) {
    return failure(text, "0 is root, the platform's own user", "Begin with an id that no account has, such as 200000.")
  }
  if (ids.last < ids.first) return failure(text, "its end is before its beginning", "Give the lower id first.")
  return ids.last > MAX_ID ? failure(text, `the highest id is ${MAX_ID}`, "Give a lower end, such as 265535.") : ids
}

const userOf = Effect.fnUntraced(function*(text: string): Effect.fn.Return<WorkerUser | WorkerIds, CliFailure> {
  const self = process.getuid?.()
  if (self === undefined) {
    return yield* failure(text, "this operating system cannot start processes of another user", "Unset it.")
  }
  if (self !== 0) {
    return yield* failure(
      text,
      `only a platform that runs as root can start processes of another user, and this one runs as user ${self}`,
      "Unset it, or start the platform as root."
    )
  }
  const range = rangeOf(text)
  if (range instanceof CliFailure) return yield* range
  if (range !== undefined) return range
  const [, uid, gid] = /^(\d+):(\d+)$/.exec(text) ?? []
  const line = yield* Effect.promise(() => passwdLine(uid ?? text))
  const [name, , foundUid, foundGid, , home] = line?.split(":") ?? []
  if (uid === undefined && foundUid === undefined) {
    return yield* failure(text, "this machine has no such user", "Create the user (useradd --system NAME), or give UID:GID.")
  }
  const user = {
    uid: Number(uid ?? foundUid),
    gid: Number(gid ?? foundGid),
    name: name ?? text,
    home: home === undefined || home === "" ? "/nonexistent" : home
  }
  return user.uid === 0 ? yield* failure(text, "this is root, the platform's own user", "Name a user without rights.") : user
})

/** A folder outside the data folder, which the workers' user cannot enter. A hash, because several platforms may share the machine. */
const sharedCacheOf = (dataDir: string): string =>
  join("/var/cache/stint", createHash("sha256").update(dataDir).digest("hex").slice(0, 16))

/** Checks the settings: looks up the user, and chooses the cache folder. */
export const resolveFor = Effect.fn("WorkerConfig.resolveFor")(function*(
  settings: WorkerSettings,
  dataDir: string
): Effect.fn.Return<WorkerOptions, CliFailure> {
  const user = Option.isNone(settings.user) ? undefined : yield* userOf(settings.user.value)
  const cacheDir = resolve(Option.getOrElse(settings.cacheDir, () => user === undefined ? dataDir : sharedCacheOf(dataDir)))
  if (user !== undefined && !relative(dataDir, cacheDir).startsWith("..")) {
    return yield* new CliFailure({
      message: `STINT_CACHE_DIR is ${cacheDir}, inside the data folder, which the workers' user cannot enter.`,
      hint: "Set it to a folder outside the data folder that every user can enter, or unset it for /var/cache/stint."
    })
  }
  const { inherit, localCpus, localGpus, localLabels, localMemory, localWorkers, spare } = settings
  const capacity = Machine.capacity({
    cpus: Option.getOrUndefined(localCpus),
    memoryBytes: localMemory,
    gpus: Option.getOrUndefined(localGpus)
  })
  return { inherit, user, cacheDir, spare, localLabels, localWorkers: Option.getOrUndefined(localWorkers), capacity }
})
