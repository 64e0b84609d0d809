import { assert, describe, it } from "@effect/vitest"
import * as HandlerBundle from "@stint/pool-process/HandlerBundle"
import { endpointOf } from "@stint/pool/testing"
import { WorkerPool } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { execFileSync } from "node:child_process"
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import * as HandlerEntryPoint from "../src/HandlerEntryPoint.ts"
import { folder, fresh, line, start, withPool } from "./TestProcesses.ts"

/** A handler with an imported file and an installed package, all with old modification times. */
const project = (mark: string) => {
  const root = join(folder, fresh("project"))
  const before = new Date(Date.now() - 60_000)
  const write = (path: string, text: string) => {
    const file = join(root, path)
    mkdirSync(join(file, ".."), { recursive: true })
    writeFileSync(file, text)
    utimesSync(file, before, before)
    return file
  }
  const version = (name: string) => {
    write(`store/${name}/package.json`, `{"name":"greeting","type":"module","exports":"./index.js"}`)
    write(`store/${name}/index.js`, `export const greeting = "${name}"`)
  }
  const install = (name: string) => {
    rmSync(join(root, "node_modules/greeting"), { force: true })
    symlinkSync(`../store/${name}`, join(root, "node_modules/greeting"))
  }
  version("hello")
  version("goodbye")
  mkdirSync(join(root, "node_modules"))
  install("hello")
  write("word.ts", `export const word: string = "world"`)
  const file = write(
    "handler.ts",
    `import { greeting } from "greeting"
     import { word } from "./word.ts"
     console.log("${mark}", greeting, word, import.meta.filename, process.argv[1]?.endsWith(".mjs"))
     try { throw new Error("thrown") } catch (error) { console.log("${mark}-trace", (error as Error).stack?.split("\\n")[1]) }`
  )
  return { root, file, write, install }
}

const changed = (write: ReturnType<typeof project>["write"]) => {
  const later = new Date(Date.now() - 30_000)
  utimesSync(write("word.ts", `export const word: string = "moon"`), later, later)
}

describe("HandlerBundle", () => {
  it.live("runs the sources until the bundle exists, then the bundle, with the same behaviour", () =>
    withPool(
      Effect.gen(function*() {
        const pool = yield* WorkerPool
        const mark = fresh("bundle")
        const { file, install, write } = project(mark)
        const source = { type: "handler", file } as const
        const run = (beginning: string) => Effect.andThen(Effect.flatMap(start(source), ({ exit }) => exit), line(beginning))
        assert.strictEqual(yield* run(`${mark} hello world ${file} `), "false")
        yield* pool.prepare(yield* endpointOf({ source }))
        assert.strictEqual(yield* run(`${mark} hello world ${file} true`), "")
        assert.match(yield* line(`${mark}-trace `), /handler\.ts:4:\d+/)
        install("goodbye")
        yield* run(`${mark} goodbye world ${file} false`)
        yield* pool.prepare(yield* endpointOf({ source }))
        changed(write)
        yield* run(`${mark} goodbye moon ${file} false`)
        yield* pool.prepare(yield* endpointOf({ source }))
        yield* run(`${mark} goodbye moon ${file} true`)
      }),
      { bundle: true, dataDir: join(folder, fresh("data")) }
    ))

  it.effect("reuses a bundle until a source or an installed package changes", () =>
    Effect.gen(function*() {
      const { file, install, write } = project(fresh("fresh"))
      const directory = join(folder, fresh("bundles"))
      const find = HandlerBundle.find(file, directory)
      const state = Effect.map(find, (found) => found !== undefined)
      assert.isFalse(yield* state)
      const made = yield* HandlerBundle.bundle(file, directory)
      assert.strictEqual(yield* find, made)
      install("goodbye")
      assert.isFalse(yield* state)
      yield* HandlerBundle.bundle(file, directory)
      assert.isTrue(yield* state)
      changed(write)
      assert.isFalse(yield* state)
    }))

  it.effect("puts lazily loaded modules in separate chunks that are not loaded at the start", () =>
    Effect.gen(function*() {
      const handler = fileURLToPath(new URL("../../../examples/01-hello/handler.ts", import.meta.url))
      const program = yield* HandlerBundle.bundle(handler, join(folder, fresh("bundles")))
      const loaded = (file: string): string => {
        const text = readFileSync(file, "utf8")
        const imports = Array.from(text.matchAll(/^import .*"(\.\/[^"]+)"|^\} from "(\.\/[^"]+)"/gm), ([, a, b]) => a ?? b ?? "")
        return [text, ...imports.map((path) => loaded(join(dirname(program), path)))].join("\n")
      }
      const atStart = loaded(program)
      assert.include(atStart, "src/runtime/TakeLoop.ts")
      assert.notInclude(atStart, "src/LocalServer.ts")
      const all = readdirSync(dirname(program)).filter((name) => name.endsWith(".mjs"))
      assert.isTrue(all.some((name) => readFileSync(join(dirname(program), name), "utf8").includes("src/LocalServer.ts")))
      assert.isFalse(all.some((name) => readFileSync(join(dirname(program), name), "utf8").includes("src/LocalJobQueue.ts")))
      assert.notInclude(atStart, "__esm")
      // These imports read all exports of the module, which loads Node's streams or its undici (packages/worker/src/transport/NodeHttpClient.ts).
      assert.deepStrictEqual(atStart.match(/^import .*"(?:node:)?(?:fs|fs\/promises|https?)"/gm), null)
    }))

  it.live("bundles a handler that imports a package that this bundler has built, such as the published SDK", () =>
    Effect.gen(function*() {
      const { file, root, write } = project(fresh("published"))
      const directory = join(folder, fresh("bundles"))
      const library = write(
        "library.ts",
        `import { createRequire } from "node:module"
         const require = createRequire(import.meta.url)
         export const start = () => import("./late.ts").then(({ late }) => console.log(late, typeof require("node:os").cpus))`
      )
      write("late.ts", `export const late = "loaded late"`)
      const program = yield* HandlerBundle.bundle(library, directory)
      const installed = join(root, "node_modules/@stint/sdk")
      cpSync(dirname(program), installed, { recursive: true })
      writeFileSync(
        join(installed, "package.json"),
        `{"name":"@stint/sdk","type":"module","exports":"./${basename(program)}"}`
      )
      write("handler.ts", `import { start } from "@stint/sdk"\nawait start()`)
      const handler = yield* HandlerBundle.bundle(file, directory)
      assert.strictEqual(execFileSync(process.execPath, [handler], { encoding: "utf8" }), "loaded late function\n")
    }))

  it.live("gives only the handler's own file the program's import.meta", () =>
    Effect.gen(function*() {
      const { file, write } = project(fresh("main"))
      const print = (name: string) =>
        `const show = (meta: ImportMeta) => console.log("${name}", import.meta.main, meta.main, meta.filename === import.meta.filename)
         show(import.meta)`
      write("word.ts", print("word"))
      write("handler.ts", `import "./word.ts"\n${print("handler")}`)
      const program = yield* HandlerBundle.bundle(file, join(folder, fresh("bundles")))
      assert.strictEqual(
        execFileSync(process.execPath, [program], { encoding: "utf8" }),
        "word false false true\nhandler true true true\n"
      )
    }))

  it.live("bundles a handler that awaits a lazily loaded module at its top level", () =>
    Effect.gen(function*() {
      const { file, write } = project(fresh("awaiting"))
      write("late.ts", `import { word } from "./word.ts"\nexport const late = word`)
      write("handler.ts", `import "./word.ts"\nconst { late } = await import("./late.ts")\nconsole.log(late)`)
      const program = yield* HandlerBundle.bundle(file, join(folder, fresh("bundles")))
      assert.strictEqual(execFileSync(process.execPath, [program], { encoding: "utf8" }), "world\n")
    }))

  it.live("formats no stack trace with the source map while Effect loads, which would parse the whole map at every start", () =>
    Effect.gen(function*() {
      const root = join(folder, fresh("traces"))
      mkdirSync(root)
      const handler = join(root, "handler.ts")
      writeFileSync(
        handler,
        `import * as Effect from "effect/Effect"
         const before = globalThis.formatted
         const trace: string = new Error("thrown").stack ?? ""
         console.log(before, globalThis.formatted - before, trace, Effect.runSync(Effect.map(Effect.succeed(20), (one) => one + 1)))`
      )
      // Takes the place of Node's formatter, which --enable-source-maps installs.
      const counter = join(root, "counter.mjs")
      writeFileSync(
        counter,
        `globalThis.formatted = 0
         Error.prepareStackTrace = (error) => { globalThis.formatted += 1; return "formatted " + error.message }`
      )
      const program = yield* HandlerBundle.bundle(handler, join(root, "bundles"), { importers: [fileURLToPath(import.meta.url)] })
      assert.strictEqual(
        execFileSync(process.execPath, ["--import", counter, program], { encoding: "utf8" }),
        "0 1 formatted thrown 21\n"
      )
    }))

  it.live("has an entry that loads what the handler needs of Stint and Effect, but neither the handler nor the process's variables", () =>
    Effect.gen(function*() {
      const { file, root, write } = project(fresh("runtime"))
      write("word.ts", `import * as Schema from "effect/Schema"\nexport const word = Schema.String.ast._tag`)
      write(
        "handler.ts",
        `import * as sdk from "@stint/sdk"
         import { word } from "./word.ts"
         console.log("handler", word, typeof sdk.serverless.start)`
      )
      const directory = join(folder, fresh("bundles"))
      const program = yield* HandlerBundle.bundle(file, directory, {
        importers: [fileURLToPath(new URL("../../sdk/src/index.ts", import.meta.url))]
      })
      const watch = join(root, "watch.mjs")
      writeFileSync(
        watch,
        `const read = []
         const watched = (target) => new Proxy(target, { get: (of, name) => (read.push(name), of[name]) })
         const { argv, env } = process
         process.env = watched(env)
         process.argv = watched(argv)
         await import(${JSON.stringify(join(dirname(program), "runtime.mjs"))})
         process.env = env
         process.argv = argv
         console.log("read", ...read)
         const { performance } = await import("node:perf_hooks")
         const loaded = []
         const { registerHooks } = await import("node:module")
         registerHooks({ load: (url, context, next) => (loaded.push(next(url, context)), loaded.at(-1)) })
         await import(${JSON.stringify(program)})
         console.log(loaded.filter(({ source }) => source?.length > 5_000).length)`
      )
      const output = execFileSync(process.execPath, [watch], { encoding: "utf8" }).split("\n")
      assert.deepStrictEqual(output.slice(1), ["handler String function", "0", ""])
      // Node's own loader reads the others. ModelVariables replaces these by those that the worker received.
      assert.strictEqual(
        output[0]?.replaceAll(/(?:WATCH_REPORT_DEPENDENCIES|NODE_V8_COVERAGE) /g, ""),
        "read HF_HOME HF_HUB_CACHE HF_HUB_OFFLINE"
      )
    }))

  it.effect("keeps the bundles whose chunks workers may still load, and removes older ones", () =>
    Effect.gen(function*() {
      const { file, write } = project(fresh("many"))
      const directory = join(folder, fresh("bundles"))
      const made: Array<string> = []
      for (const seconds of [50, 40, 30, 20, 10]) {
        const at = new Date(Date.now() - seconds * 1_000)
        utimesSync(write("word.ts", `export const word: string = "${seconds}"`), at, at)
        made.push(yield* HandlerBundle.bundle(file, directory))
      }
      assert.deepStrictEqual(made.map((program) => existsSync(program)), [false, false, true, true, true])
      assert.strictEqual(yield* HandlerBundle.find(file, directory), made[4])
    }))

  it.effect("logs once why a handler cannot be bundled", () =>
    Effect.gen(function*() {
      const messages: Array<unknown> = []
      const file = join(project(fresh("broken")).root, "broken.ts")
      writeFileSync(file, "import './nowhere.ts'")
      const entries = yield* HandlerEntryPoint.make(join(folder, fresh("bundles")))
      const prepare = entries.prepare(file).pipe(
        Effect.provide(Logger.layer([Logger.make(({ message }) => messages.push(message))]))
      )
      yield* prepare
      yield* prepare
      assert.lengthOf(messages, 1)
      assert.match(String(messages[0]), /broken\.ts cannot be bundled: .*nowhere\.ts.*\. It runs from its sources/s)
      assert.strictEqual((yield* entries.of(file)).path, file)
    }))
})
