import { assert, describe, it } from "@effect/vitest"
import { ENVIRONMENT_AT_START } from "@stint/contract/WorkerProtocol"
import { endpointOf } from "@stint/pool/testing"
import { WorkerPool } from "@stint/pool/WorkerPool"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { spawn } from "node:child_process"
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import * as OutputPipes from "../src/OutputPipes.ts"
import * as StandbyWorkers from "../src/StandbyWorkers.ts"
import type { WorkerCommand } from "../src/WorkerCommand.ts"
import { folder, fresh, gone, printed, script, start, until, withPool } from "./TestProcesses.ts"

/** The pids of the processes that a platform started as standbys. */
const standbysOf = (platform: number): ReadonlyArray<number> =>
  readFileSync(`/proc/${platform}/task/${platform}/children`, "utf8").trim().split(" ").map(Number).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("standby.mjs")
    } catch {
      return false
    }
  })

const NOBODY = { uid: 65_534, gid: 65_534, name: "nobody", home: "/nonexistent" }

/** Bundles a handler, and starts workers for it until one of them runs in a standby. */
const startInStandby = Effect.fnUntraced(function*(file: string, env: Record<string, string> = {}) {
  const { prepare } = yield* WorkerPool
  yield* prepare(yield* endpointOf({ source: { type: "handler", file } }))
  return yield* start({ type: "handler", file }, env).pipe(
    Effect.tap(({ kill, standby }) => standby === true ? Effect.void : kill),
    Effect.repeat({ until: ({ standby }) => standby === true, schedule: Schedule.spaced("20 millis") })
  )
})

/** What a program sees of its process. */
const seen = (mark: string) =>
  script(`
    import { readFileSync } from "node:fs"
    const { NODE_V8_COVERAGE, PLATFORM_POD_ID, PLATFORM_POD_HOSTNAME, RUNPOD_POD_ID, RUNPOD_POD_HOSTNAME, ...env } = process.env
    console.log("${mark}", JSON.stringify({
      cwd: process.cwd(), argv: process.argv, execArgv: process.execArgv, main: import.meta.main,
      identified: PLATFORM_POD_ID === RUNPOD_POD_ID && PLATFORM_POD_ID.startsWith("w-"), env: Object.entries(env).sort()
    }))
    console.log("${mark}-initial", readFileSync("/proc/self/environ", "utf8").includes("of this endpoint"))
    process.exit(7)
  `)

describe.skipIf(!existsSync("/proc/self/task"))("standby processes", () => {
  it.live("become a worker with the environment, folder, arguments and output of a new process", () =>
    Effect.gen(function*() {
      const own = fresh("own")
      const env = { SECRET: "of this endpoint", NODE_ENV: "production" }
      const file = seen(own)
      const dataDir = join(folder, fresh("data"))
      const inNew = yield* withPool(
        Effect.gen(function*() {
          yield* (yield* WorkerPool).prepare(yield* endpointOf({ source: { type: "handler", file } }))
          const handle = yield* start({ type: "handler", file }, env)
          assert.isUndefined(handle.standby)
          return yield* handle.exit
        }),
        { bundle: true, dataDir }
      )
      const inStandby = yield* withPool(Effect.flatMap(startInStandby(file, env), ({ exit }) => exit), {
        bundle: true,
        spare: 1,
        dataDir
      })
      assert.deepStrictEqual([inNew, inStandby].map((exit) => exit._tag === "Exited" && exit.code), [7, 7])
      const [one = "", initial, other, initialOfStandby] = printed.filter((text) => text.startsWith(own))
      assert.strictEqual(other, one)
      assert.include(one, "[\"SECRET\",\"of this endpoint\"]")
      assert.include(one, "\"main\":true,\"identified\":true")
      assert.deepStrictEqual([initial, initialOfStandby], [`${own}-initial true`, `${own}-initial false`])
    }))

  it.live("report an error during the import of the handler as a new process does", () =>
    withPool(
      Effect.gen(function*() {
        const handle = yield* startInStandby(script(`const broken = (): never => { throw new Error("no model") }\nbroken()`))
        const exit = yield* handle.exit
        assert.strictEqual(exit._tag === "Exited" && exit.code, 1)
        assert.include(exit.log.join("\n"), "Error: no model")
        // Names the line of the source, not of the bundle.
        assert.match(exit.log.join("\n"), /broken.*script-.*\.ts:1/)
      }),
      { bundle: true, spare: 1 }
    ))

  it.live("serve one worker each, in parallel", () =>
    withPool(
      Effect.gen(function*() {
        const mark = fresh("each")
        const file = script(`console.log("${mark}", process.pid); setInterval(() => {}, 1000)`)
        yield* (yield* WorkerPool).prepare(yield* endpointOf({ source: { type: "handler", file } }))
        yield* until("three standbys", () => standbysOf(process.pid).length === 3 ? true : undefined)
        const workers = yield* Effect.all([startInStandby(file), startInStandby(file), startInStandby(file)], {
          concurrency: "unbounded"
        })
        assert.strictEqual(new Set(workers.map(({ id }) => id)).size, 3)
      }),
      { bundle: true, spare: 3, dataDir: join(folder, fresh("data")) }
    ))

  it.live("end when the pool closes", () =>
    Effect.gen(function*() {
      const dataDir = join(folder, fresh("data"))
      const [standby = 0] = yield* withPool(
        until("a standby", () => standbysOf(process.pid).length === 1 ? standbysOf(process.pid) : undefined),
        { bundle: true, spare: 1, dataDir }
      )
      yield* gone(standby)
      assert.deepStrictEqual(readdirSync(join(dataDir, "workers")), [])
    }))

  it.live("end with a killed platform, but a worker that was a standby outlives it, and is requested to exit in time", () =>
    Effect.gen(function*() {
      const dataDir = join(folder, fresh("data"))
      const pidFile = join(folder, fresh("pid"))
      const file = script(`
        import { renameSync, writeFileSync } from "node:fs"
        process.on("SIGTERM", () => {
          writeFileSync("${pidFile}.exit", "on request")
          process.exit(0)
        })
        setInterval(() => {}, 1000)
        writeFileSync("${pidFile}.new", String(process.pid))
        renameSync("${pidFile}.new", "${pidFile}")
      `)
      const platform = spawn(
        process.execPath,
        [join(import.meta.dirname, "fixtures/standby-platform.ts"), dataDir, file, "0.2"],
        {
          stdio: ["ignore", "pipe", "inherit"]
        }
      )
      let printed = ""
      platform.stdout.on("data", (data: Buffer) => {
        printed += data.toString()
      })
      yield* until("the assignment", () => printed.includes("assigned") ? true : undefined)
      const [worker, others] = yield* until("the worker, and another standby", () => {
        const pid = existsSync(pidFile) ? Number(readFileSync(pidFile, "utf8")) : 0
        const all = standbysOf(platform.pid ?? 0).filter((other) => other !== pid)
        return pid > 0 && all.length > 0 ? [pid, all] as const : undefined
      })
      platform.kill("SIGKILL")
      for (const pid of [...others, worker]) yield* gone(pid)
      assert.strictEqual(readFileSync(`${pidFile}.exit`, "utf8"), "on request")
    }))
})

/** The standbys of a test, with their own pipes. */
const withStandbys = <A, E>(
  body: (standbys: StandbyWorkers.StandbyWorkers, workers: string) => Effect.Effect<A, E>,
  options: Partial<StandbyWorkers.Options> = {}
) =>
  Effect.scoped(Effect.gen(function*() {
    const workers = join(folder, fresh("pipes"))
    const programs = join(folder, fresh("programs"))
    mkdirSync(workers)
    mkdirSync(programs, { mode: 0o755 })
    const pipes = yield* OutputPipes.make(workers, () => false, Duration.seconds(30))
    const standbys = yield* StandbyWorkers.make({
      count: 1,
      folder: programs,
      permissions: { file: 0o644, folder: 0o755 },
      nodeOptions: [],
      environment: { PATH: process.env["PATH"] ?? "" },
      user: undefined,
      replaceAfter: 0,
      retryAfter: 0,
      pipes,
      ...options
    })
    return yield* body(standbys, workers)
  }))

const command = (path: string, directory: string): WorkerCommand => ({
  path: process.execPath,
  args: [path],
  directory,
  environment: { PATH: process.env["PATH"] ?? "" },
  isBundle: true
})

/** Assigns a program as soon as a standby waits. */
const assigned = (standbys: StandbyWorkers.StandbyWorkers, program: WorkerCommand) =>
  standbys.assign(program, fresh("w"), () => {}).pipe(
    Effect.flatMap((standby) => standby === undefined ? Effect.fail("none waits" as const) : Effect.succeed(standby)),
    Effect.retry(Schedule.spaced("20 millis"))
  )

describe("StandbyWorkers", () => {
  it.each([
    [{ TOKEN: "secret", NODE_ENV: "production", PATH: "/opt" }, true],
    [{ LANG: "C.UTF-8" }, true],
    [{ LANG: "de_DE.UTF-8" }, false],
    [{ NODE_OPTIONS: "--max-old-space-size=100" }, false],
    [{ LD_PRELOAD: "/opt/lib.so" }, false],
    [{ TZ: "Asia/Tokyo" }, false],
    [{ UV_THREADPOOL_SIZE: "16" }, false]
  ])("run a worker only when Node and the loader would start with the same variables: %j %s", (variables, expected) => {
    const environment = { PATH: "/bin", LANG: "C.UTF-8" }
    assert.strictEqual(
      StandbyWorkers.fits({ isBundle: true, environment: { ...environment, ...variables } }, environment),
      expected
    )
    assert.isFalse(StandbyWorkers.fits({ isBundle: false, environment: { ...environment, ...variables } }, environment))
  })

  it.live("replaces a standby that was taken, and one that was killed while it waited", () =>
    withStandbys((standbys) =>
      Effect.gen(function*() {
        const exits = command(script("process.exit(0)"), folder)
        const first = yield* assigned(standbys, exits)
        const [killed = 0] = yield* until("the next standby", () => {
          const found = standbysOf(process.pid).filter((pid) => pid !== first.pid)
          return found.length === 1 ? found : undefined
        })
        process.kill(killed, "SIGKILL")
        const next = yield* assigned(standbys, exits)
        assert.isFalse([first.pid, killed].includes(next.pid))
      })
    ))

  it.live("kills a standby that cannot enter the worker's folder, and returns none", () =>
    withStandbys((standbys, workers) =>
      Effect.gen(function*() {
        let taken = 0
        const result = yield* standbys.assign(command(script(""), join(folder, "nowhere")), fresh("w"), ({ pid }) => {
          taken = pid
        }).pipe(Effect.repeat({ until: () => taken > 0, schedule: Schedule.spaced("20 millis") }))
        assert.isUndefined(result)
        yield* gone(taken)
        assert.deepStrictEqual(readdirSync(workers).filter((name) => name.startsWith("w-")), [])
      })
    ))

  it.live("loads the runtime of the programs that were started last, and runs other programs as well", () =>
    withStandbys((standbys) =>
      Effect.gen(function*() {
        /** A bundle whose program prints which runtime its process had loaded before, and the environment that it finds. */
        const bundle = (name: string, runtime = `globalThis.loaded = [globalThis.loaded, "${name}"].filter(Boolean).join()`) => {
          const place = join(folder, fresh(name))
          mkdirSync(place)
          writeFileSync(join(place, "runtime.mjs"), runtime)
          writeFileSync(
            join(place, "worker.mjs"),
            `const before = globalThis.loaded ?? "nothing"
             const { MARK } = globalThis[Symbol.for(${JSON.stringify(ENVIRONMENT_AT_START)})]
             console.log(before, MARK, process.argv.length)
             process.exit(0)`
          )
          return { ...command(join(place, "worker.mjs"), folder), environment: { PATH: process.env["PATH"] ?? "", MARK: name } }
        }
        const run = Effect.fnUntraced(function*(program: WorkerCommand) {
          const { sources } = yield* assigned(standbys, program)
          return yield* Effect.promise(async () => {
            const lines: Array<string> = []
            for await (const data of sources.stdout.content) lines.push(String(data))
            return lines.join("")
          })
        })
        const [a, b] = [bundle("a"), bundle("b")]
        const broken = bundle("broken", `throw new Error("cannot be loaded")`)
        const waiting = (runtimes: number) =>
          until(`${runtimes} standbys with a runtime`, () => {
            const all = standbysOf(process.pid).map((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8"))
            return all.length === 2 && all.filter((line) => line.includes("runtime.mjs")).length === runtimes ? true : undefined
          })
        yield* waiting(0)
        assert.strictEqual(yield* run(a), "nothing a 2\n")
        yield* waiting(1)
        // `b` takes the generic standby, because the other one has loaded the modules of `a`.
        assert.strictEqual(yield* run(b), "nothing b 2\n")
        /** Runs a program until one of its processes had loaded its runtime: a standby needs a moment to become ready. */
        const untilLoaded = (program: WorkerCommand, line: string) =>
          Effect.repeat(run(program), { until: (printed) => printed === line })
        yield* untilLoaded(b, "b b 2\n")
        yield* untilLoaded(a, "a a 2\n")
        // On a busy machine, no standby may be ready, and the next one has already tried to load the broken runtime.
        assert.match(yield* run(broken), /^(a|b|nothing) broken 2\n$/)
        yield* untilLoaded(broken, "nothing broken 2\n")
      }), { count: 2 }))

  it.live.skipIf(process.getuid?.() !== 0)(
    "runs as another user, who can read its program but change nothing in it",
    () =>
      withStandbys(
        (standbys) =>
          Effect.gen(function*() {
            const mark = join("/tmp", fresh("uid"))
            chmodSync(folder, 0o755)
            const file = script(`
            import { writeFileSync } from "node:fs"
            writeFileSync("${mark}", [process.getuid(), process.getgid(), process.getgroups()].join(" "))
            process.exit(0)
          `)
            const { child } = yield* assigned(standbys, command(file, "/tmp"))
            yield* until("its exit", () => child.exitCode ?? undefined)
            assert.strictEqual(readFileSync(mark, "utf8"), `${NOBODY.uid} ${NOBODY.gid} ${NOBODY.gid}`)
            assert.strictEqual(statSync(mark).uid, NOBODY.uid)
          }),
        { user: NOBODY }
      )
  )
})
