import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { chmodSync, existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { inheritedEnvironment } from "../src/WorkerCommand.ts"
import { folder, fresh, gone, isAlive, line, printed, script, start, withPool } from "./TestProcesses.ts"

const refused = (source: Parameters<typeof start>[0]) => Effect.map(Effect.flip(start(source)), ({ message }) => message)

describe("ProcessPool: what cannot be started", () => {
  it.live("says which file is missing, and what to do", () =>
    withPool(Effect.gen(function*() {
      const file = join(folder, "missing.ts")
      assert.strictEqual(
        yield* refused({ type: "handler", file }),
        `${file} cannot be started: there is no such file. Correct the handler of endpoint tested, or create the file.`
      )
      assert.strictEqual(
        yield* refused({ type: "handler", file: folder }),
        `${folder} cannot be started: it is not a file. Correct the handler of endpoint tested, or create the file.`
      )
    })))

  it.live("says which program is missing, and does not blame it for a missing directory", () =>
    withPool(Effect.gen(function*() {
      assert.strictEqual(
        yield* refused({ type: "command", command: ["no-such-program-of-ours"] }),
        "no-such-program-of-ours cannot be started: no folder in PATH contains this program. " +
          "Correct the command of endpoint tested, or install the program."
      )
      const directory = join(folder, "nowhere")
      assert.strictEqual(
        yield* refused({ type: "command", command: ["sh"], directory }),
        `${directory} cannot be started: there is no such folder. Correct the directory of endpoint tested, or create it.`
      )
      const text = script("not a program", fresh("text"))
      chmodSync(text, 0o644)
      assert.match(
        yield* refused({ type: "command", command: [text] }),
        /the operating system refuses to run it \(EACCES\)\. Make it executable/
      )
    })))

  it.live("leaves nothing behind", () =>
    withPool(Effect.gen(function*() {
      yield* refused({ type: "command", command: ["no-such-program-of-ours"] })
      assert.deepStrictEqual(readdirSync(join(folder, "data", "workers")), [])
    })))
})

describe("ProcessPool: what a worker has", () => {
  it("inherits the platform's environment without its own settings", () =>
    assert.deepStrictEqual(
      inheritedEnvironment({
        PATH: "/bin",
        HOME: "/root",
        STINT_API_KEY: "secret",
        STINT_DATA_DIR: ".stint",
        PORT: "4600",
        NOTHING: undefined
      }),
      { PATH: "/bin", HOME: "/root" }
    ))

  it.live("runs in the folder of its handler, or in the directory of its command, without a shell", () =>
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

  it.live("is started by the platform's own Node, with a compile cache in the data folder", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("node")
      yield* (yield* start({
        type: "handler",
        file: script(`console.log("${mark}", process.version, process.env.NODE_COMPILE_CACHE)`)
      })).exit
      assert.strictEqual(yield* line(`${mark} `), `${process.version} ${join(folder, "data", "compile-cache")}`)
    })))

  it.live("prints to the log as it goes, from both streams, the last line without a break included", () =>
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

/** A worker with a child of its own that would outlive it; both ignore SIGTERM. */
const family = (mark: string) => `
  import { spawn } from "node:child_process"
  process.on("SIGTERM", () => {})
  const child = spawn(process.execPath, ["-e", "process.on('SIGTERM', () => {}); console.log('${mark}-ready'); setInterval(() => {}, 1000)"], {
    stdio: ["ignore", "inherit", "inherit"]
  })
  console.log("${mark}", child.pid, process.pid)
  setInterval(() => {}, 1000)
`

describe("ProcessPool: process groups", () => {
  it.live("is in a group of its own, so that a Ctrl-C reaches the platform alone", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("group")
      yield* start({ type: "command", command: ["sh", "-c", `echo "${mark} $(ps -o pgid= -p $$) $$"; sleep 60`] })
      const [group, pid] = (yield* line(`${mark} `)).trim().split(/\s+/)
      assert.strictEqual(group, pid)
    })))

  it.live("a killed worker takes what it has started with it", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("killed")
      const handle = yield* start({ type: "handler", file: script(family(mark)) })
      const child = Number((yield* line(`${mark} `)).split(" ")[0])
      yield* line(`${mark}-ready`)
      yield* handle.drain
      yield* handle.kill
      const exit = yield* handle.exit
      assert.strictEqual(exit._tag === "Killed" && exit.signal, "SIGKILL")
      yield* gone(child)
    })))

  it.live("a worker that ends by itself does too, and its end is known at once", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("left")
      const handle = yield* start({ type: "handler", file: script(`${family(mark)}\nsetTimeout(() => process.exit(3), 300)`) })
      const child = Number((yield* line(`${mark} `)).split(" ")[0])
      const exit = yield* handle.exit
      assert.strictEqual(exit._tag === "Exited" && exit.code, 3)
      yield* gone(child)
    })))

  it.live("nothing of it is left when the pool is gone", () =>
    Effect.gen(function*() {
      const mark = fresh("closed")
      const scope = yield* Scope.make()
      yield* withPool(
        start({ type: "handler", file: script(family(mark)) }).pipe(
          Scope.provide(scope),
          Effect.andThen(line(`${mark}-ready`)),
          Effect.andThen(Scope.close(scope, Exit.void))
        )
      )
      const [child = 0, worker = 0] = (yield* line(`${mark} `)).split(" ").map(Number)
      assert.isFalse(isAlive(worker))
      yield* gone(child)
      assert.deepStrictEqual(readdirSync(join(folder, "data", "workers")), [])
      assert.isTrue(existsSync(folder))
    }))
})
