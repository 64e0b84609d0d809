import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { folder, fresh, gone, isAlive, line, printed, script, start, until, withPool } from "./TestProcesses.ts"

const startErrorOf = (source: Parameters<typeof start>[0]) => Effect.map(Effect.flip(start(source)), ({ message }) => message)

describe("ProcessPool: failed starts", () => {
  it.live("names the missing file and a remedy", () =>
    withPool(Effect.gen(function*() {
      const file = join(folder, "missing.ts")
      assert.strictEqual(
        yield* startErrorOf({ type: "handler", file }),
        `${file} cannot be started: there is no such file. Correct the handler of endpoint tested, or create the file.`
      )
      assert.strictEqual(
        yield* startErrorOf({ type: "handler", file: folder }),
        `${folder} cannot be started: it is not a file. Correct the handler of endpoint tested, or create the file.`
      )
    })))

  it.live("names the missing program, or the directory if that is missing", () =>
    withPool(Effect.gen(function*() {
      assert.strictEqual(
        yield* startErrorOf({ type: "command", command: ["no-such-program-of-ours"] }),
        "no-such-program-of-ours cannot be started: no folder in PATH contains this program. " +
          "Correct the command of endpoint tested, or install the program."
      )
      const directory = join(folder, "nowhere")
      assert.strictEqual(
        yield* startErrorOf({ type: "command", command: ["sh"], directory }),
        `${directory} cannot be started: there is no such folder. Correct the directory of endpoint tested, or create it.`
      )
      const text = script("not a program", fresh("text"))
      chmodSync(text, 0o644)
      assert.match(
        yield* startErrorOf({ type: "command", command: [text] }),
        /the operating system refuses to run it \(EACCES\)\. Make it executable/
      )
    })))

  it.live("leaves no record after a failed start", () =>
    withPool(Effect.gen(function*() {
      yield* startErrorOf({ type: "command", command: ["no-such-program-of-ours"] })
      assert.deepStrictEqual(readdirSync(join(folder, "data", "workers")), ["keeper"])
    })))
})

describe("ProcessPool: environment and output of a worker", () => {
  it.live("runs a worker in the folder of its handler, and a command without a shell", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("cwd")
      const handle = yield* start({ type: "handler", file: script(`console.log("${mark}", process.cwd(), process.env.PWD)`) })
      yield* handle.exit
      assert.strictEqual(yield* line(`${mark} `), `${folder} ${folder}`)
      const command = fresh("command")
      yield* (yield* start({ type: "command", command: ["printf", "%s\\n", `${command} $HOME *`, "last"], directory: folder }))
        .exit
      assert.strictEqual(yield* line(`${command} `), "$HOME *")
    })))

  it.live("reports the CPU time and the memory of a worker, including its children", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("cpu")
      const burn = "const end = process.cpuUsage().user + 300_000; while (process.cpuUsage().user < end);"
      const program = script(`
import { execFileSync, spawn } from "node:child_process"
execFileSync(process.execPath, ["-e", ${JSON.stringify(burn)}])
spawn(process.execPath, ["-e", ${
        JSON.stringify(`${burn} console.log("${mark} burnt"); setInterval(() => {}, 1_000)`)
      }], { stdio: "inherit" })
`)
      const { exit, kill, resources } = yield* start({ type: "command", command: [process.execPath, program] })
      if (resources === undefined) return assert.fail("the pool measures no resources")
      yield* line(`${mark} burnt`)
      const { cpuMillis = 0, memoryBytes = 0 } = (yield* resources) ?? {}
      assert.isAbove(cpuMillis, 590)
      assert.isBelow(cpuMillis, 10_000)
      // Two processes of Node: each occupies at least 30 MB.
      assert.isAbove(memoryBytes, 60_000_000)
      assert.isBelow(memoryBytes, 2_000_000_000)
      yield* kill
      yield* exit
      assert.isUndefined(yield* resources)
    })))

  it.live("runs each worker of a command in its own folder, with links to the endpoint's files, and removes it with the worker", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("own")
      const project = join(folder, fresh("project"))
      mkdirSync(project)
      writeFileSync(join(project, "model.txt"), "weights")
      writeFileSync(join(project, ".runpod_jobs.pkl"), "left behind")
      writeFileSync(
        join(project, "worker.sh"),
        `echo "${mark} $PWD $(pwd) $(cat model.txt) $(ls -A | tr '\\n' ' ')"; echo state > .runpod_jobs.pkl; exec sleep 60`
      )
      const source = { type: "command", command: ["sh", "worker.sh"], directory: project } as const
      const workers = [yield* start(source), yield* start(source)]
      const seen = yield* until("both workers", () => {
        const lines = printed.filter((text) => text.startsWith(`${mark} `))
        return lines.length === 2 ? lines.map((text) => text.split(" ")) : undefined
      })
      const folders = seen.map(([, cwd = ""]) => cwd)
      assert.notStrictEqual(folders[0], folders[1])
      for (const [, variable, cwd, ...rest] of seen) {
        assert.strictEqual(variable, cwd)
        assert.deepStrictEqual(rest, ["weights", "model.txt", "worker.sh", ""])
      }
      for (const { kill } of workers) yield* kill
      for (const { exit } of workers) yield* exit
      assert.deepStrictEqual(folders.map((path) => existsSync(path)), [false, false])
      assert.strictEqual(readFileSync(join(project, ".runpod_jobs.pkl"), "utf8"), "left behind")
      assert.strictEqual(readFileSync(join(project, "model.txt"), "utf8"), "weights")
    })))

  it.live("runs all workers of a command in its cwd, relative to its directory, when it is set", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("shared")
      const shared = fresh("shared-folder")
      mkdirSync(join(folder, shared))
      const source = { type: "command", command: ["sh", "-c", `echo "${mark} $(pwd)"`], directory: folder, cwd: shared } as const
      yield* (yield* start(source)).exit
      assert.strictEqual(yield* line(`${mark} `), join(folder, shared))
      assert.isTrue(existsSync(join(folder, shared)))
      assert.strictEqual(
        yield* startErrorOf({ ...source, cwd: "nowhere" }),
        `${join(folder, "nowhere")} cannot be started: there is no such folder. Correct the cwd of endpoint tested, or create it.`
      )
    })))

  it.live("starts a worker with the platform's Node, with a compile cache in the data folder", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("node")
      yield* (yield* start({
        type: "handler",
        file: script(`console.log("${mark}", process.version, process.env.NODE_COMPILE_CACHE)`)
      })).exit
      assert.strictEqual(yield* line(`${mark} `), `${process.version} ${join(folder, "data", "compile-cache")}`)
    })))

  it.live("logs the lines of both streams at once, with a last line without a line break", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("both")
      const handle = yield* start({
        type: "handler",
        file: script(`process.stdout.write("${mark} out\\r\\n"); process.stderr.write("${mark} ünbroken"); process.exitCode = 9`)
      })
      const { log } = yield* handle.exit
      assert.sameMembers([...log], [`${mark} out`, `${mark} ünbroken`])
      assert.includeMembers(printed, [...log])
    })))
})

describe("ProcessPool: output", () => {
  it.live("reads the output of a worker through anonymous pipes where named pipes cannot be created", () => {
    const path = process.env["PATH"]
    process.env["PATH"] = join(folder, "nowhere")
    return withPool(Effect.gen(function*() {
      const mark = fresh("anonymous")
      const handle = yield* start({ type: "handler", file: script(`console.log("${mark}"); console.error("${mark}-error")`) })
      const { log } = yield* handle.exit
      assert.sameMembers([...log], [mark, `${mark}-error`])
    })).pipe(Effect.ensuring(Effect.sync(() => {
      process.env["PATH"] = path
    })))
  })
})

/** A worker with a child process that would outlive it. Both ignore SIGTERM. */
const withChild = (mark: string) => `
  import { spawn } from "node:child_process"
  process.on("SIGTERM", () => {})
  const child = spawn(process.execPath, ["-e", "process.on('SIGTERM', () => {}); console.log('${mark}-ready'); setInterval(() => {}, 1000)"], {
    stdio: ["ignore", "inherit", "inherit"]
  })
  console.log("${mark}", child.pid, process.pid)
  setInterval(() => {}, 1000)
`

describe("ProcessPool: process groups", () => {
  it.live("runs a worker in its own process group, so that Ctrl-C reaches only the platform", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("group")
      yield* start({ type: "command", command: ["sh", "-c", `echo "${mark} $(ps -o pgid= -p $$) $$"; sleep 60`] })
      const [group, pid] = (yield* line(`${mark} `)).trim().split(/\s+/)
      assert.strictEqual(group, pid)
    })))

  it.live("kills the descendants of a killed worker", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("killed")
      const handle = yield* start({ type: "handler", file: script(withChild(mark)) })
      const child = Number((yield* line(`${mark} `)).split(" ")[0])
      yield* line(`${mark}-ready`)
      yield* handle.drain
      yield* handle.kill
      const exit = yield* handle.exit
      assert.strictEqual(exit._tag === "Killed" && exit.signal, "SIGKILL")
      yield* gone(child)
    })))

  it.live("kills the descendants of a worker that exits by itself, and reports the exit at once", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("left")
      const handle = yield* start({ type: "handler", file: script(`${withChild(mark)}\nsetTimeout(() => process.exit(3), 300)`) })
      const child = Number((yield* line(`${mark} `)).split(" ")[0])
      const exit = yield* handle.exit
      assert.strictEqual(exit._tag === "Exited" && exit.code, 3)
      yield* gone(child)
    })))

  it.live("leaves no process when the pool closes, and no record once the exit has been processed", () =>
    Effect.gen(function*() {
      const mark = fresh("closed")
      const scope = yield* Scope.make()
      const { forget = Effect.void, id } = yield* withPool(
        start({ type: "handler", file: script(withChild(mark)) }).pipe(
          Scope.provide(scope),
          Effect.tap(line(`${mark}-ready`)),
          Effect.tap(Scope.close(scope, Exit.void))
        )
      )
      const [child = 0, worker = 0] = (yield* line(`${mark} `)).split(" ").map(Number)
      assert.isFalse(isAlive(worker))
      yield* gone(child)
      const record = join(folder, "data", "workers", `${id}.json`)
      assert.isTrue(existsSync(record))
      yield* forget
      assert.isFalse(existsSync(record))
    }))
})

/**
 * A worker that starts processes in their own sessions: one that exits on SIGTERM and says so in a file, one that was forked twice and
 * ignores SIGTERM, and one without the worker's id.
 */
const withSessions = (mark: string, asked: string) => {
  const child = (name: string, onTerm: string) =>
    JSON.stringify(
      `process.on("SIGTERM", () => {${onTerm}}); console.log("${mark}-${name}", process.pid); setInterval(() => {}, 1000)`
    )
  return script(`
    import { spawn } from "node:child_process"
    const stdio = ["ignore", "inherit", "inherit"]
    const exits = ${child("exits", `require("node:fs").writeFileSync("${asked}", ""); process.exit(0)`)}
    spawn(process.execPath, ["-e", exits], { detached: true, stdio })
    spawn("sh", ["-c", 'setsid "$0" -e "$1" &', process.execPath, ${child("ignores", "")}], { stdio })
    const { PLATFORM_POD_ID, ...env } = process.env
    spawn(process.execPath, ["-e", ${child("stranger", "")}], { detached: true, stdio, env })
    setInterval(() => {}, 1000)
  `)
}

describe.runIf(process.platform === "linux")("ProcessPool: children with their own session", () => {
  it.live("end after their worker, and no other process does", () =>
    Effect.gen(function*() {
      const [first, second] = [fresh("sessions"), fresh("sessions")]
      const asked = join(folder, fresh("asked"))
      const pids = (mark: string) =>
        Effect.forEach(["exits", "ignores", "stranger"], (name) => Effect.map(line(`${mark}-${name} `), Number))
      const others = yield* withPool(Effect.gen(function*() {
        const handle = yield* start({ type: "handler", file: withSessions(first, asked) })
        yield* start({ type: "handler", file: withSessions(second, join(folder, fresh("asked"))) })
        const [exits = 0, ignores = 0, stranger = 0] = yield* pids(first)
        const others = yield* pids(second)
        yield* handle.kill
        yield* handle.exit
        yield* gone(exits)
        assert.isTrue(existsSync(asked))
        yield* gone(ignores)
        assert.deepStrictEqual([stranger, ...others].map(isAlive), [true, true, true, true])
        process.kill(stranger, "SIGKILL")
        return others
      }))
      // The pool waited for them when it closed.
      assert.deepStrictEqual(others.map(isAlive), [false, false, true])
      process.kill(others[2] ?? 0, "SIGKILL")
    }))

  it.live("end when their worker exits by itself", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("session-left")
      const child = `console.log("${mark}", process.pid); setInterval(() => {}, 1000)`
      const handle = yield* start({
        type: "command",
        command: ["sh", "-c", `setsid "$0" -e '${child}' & sleep 0.5`, process.execPath]
      })
      const pid = Number(yield* line(`${mark} `))
      yield* handle.exit
      yield* gone(pid)
    })))
})
