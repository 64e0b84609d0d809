import { assert, describe, it } from "@effect/vitest"
import type { CodeError } from "@stint/pool/CodeArtifacts"
import * as Effect from "effect/Effect"
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as FrozenCode from "../src/FrozenCode.ts"
import * as HandlerBundle from "../src/HandlerBundle.ts"
import { folder, fresh, line, printed, start, until, withPool } from "./TestProcesses.ts"

/** A handler in its own folder, with an imported file. */
const project = (mark: string) => {
  const root = join(folder, fresh("project"))
  mkdirSync(root, { recursive: true })
  const save = (word: string) => writeFileSync(join(root, "word.ts"), `export const word: string = ${JSON.stringify(word)}`)
  save("world")
  const file = join(root, "handler.ts")
  writeFileSync(
    file,
    `import { word } from "./word.ts"
     console.log("${mark}", word, import.meta.filename)
     try { throw new Error("thrown") } catch (error) { console.log("${mark}-trace", (error as Error).stack?.split("\\n")[1]) }`
  )
  return { root, file, save, source: { type: "handler", file } as const }
}

const make = Effect.gen(function*() {
  const dataDir = join(folder, fresh("data"))
  return {
    dataDir,
    releases: join(dataDir, "releases"),
    code: yield* FrozenCode.make({ dataDir, bundles: join(dataDir, "bundles"), bundle: {} })
  }
})

const problemOf = (freezing: Effect.Effect<unknown, CodeError>) => Effect.map(Effect.flip(freezing), ({ message }) => message)

describe("FrozenCode", () => {
  it.live("runs the code that was frozen, with the source's names, after the file was changed and after its folder was removed", () => {
    const dataDir = join(folder, fresh("data"))
    return withPool(
      Effect.gen(function*() {
        const code = yield* FrozenCode.make({ dataDir, bundles: join(dataDir, "bundles"), bundle: {} })
        const mark = fresh("frozen")
        const { file, root, save, source } = project(mark)
        const frozen = yield* code.freeze(source)
        const run = Effect.flatMap(start(source, {}, frozen === undefined ? {} : { code: frozen.hash }), ({ exit }) => exit)
        save("moon")
        yield* run
        yield* line(`${mark} world ${file}`)
        assert.include(yield* line(`${mark}-trace `), `${file}:3:`)
        rmSync(root, { recursive: true })
        yield* run
        yield* until("a second line", () => printed.filter((text) => text === `${mark} world ${file}`)[1])
      }),
      { dataDir }
    )
  })

  it.live("gives the same code the same hash, stores it once, and lists the handler's own files", () =>
    Effect.gen(function*() {
      const { code, releases } = yield* make
      const { file, save, source } = project(fresh("hash"))
      const first = yield* code.freeze(source)
      assert.deepStrictEqual(first?.files.map(({ path }) => path), ["handler.ts", "word.ts"])
      save("moon")
      const second = yield* code.freeze(source)
      assert.notStrictEqual(first?.hash, second?.hash)
      assert.strictEqual(first?.files[0]?.hash, second?.files[0]?.hash)
      assert.notStrictEqual(first?.files[1]?.hash, second?.files[1]?.hash)
      save("world")
      assert.deepStrictEqual(yield* code.freeze(source), first)
      assert.deepStrictEqual(new Set(readdirSync(releases)), new Set([first?.hash, second?.hash]))
      yield* code.retain(new Set([String(second?.hash)]))
      assert.deepStrictEqual(readdirSync(releases), [second?.hash])
      assert.match(
        (yield* Effect.flip(code.programOf(String(first?.hash), "hello"))).message,
        /the code of this release is missing\. Deploy the endpoint again \(stint deploy hello\)/
      )
      // The handler's files are those of the first release, so its code is rebuilt. After a change to the files, it is not.
      assert.match(yield* code.programOf(String(first?.hash), "hello", file), new RegExp(String(first?.hash)))
      yield* code.retain(new Set())
      save("moon")
      assert.match(
        (yield* Effect.flip(code.programOf(String(first?.hash), "hello", file))).message,
        /the code of this release is missing/
      )
    }))

  it.live("gives the same sources the same hash, even if the bundler writes them in another way", () =>
    Effect.gen(function*() {
      const { code, dataDir, releases } = yield* make
      const { file, source } = project(fresh("other-output"))
      const first = yield* code.freeze(source)
      const bundle = yield* HandlerBundle.bundle(file, join(dataDir, "bundles"))
      appendFileSync(bundle, "// another output\n")
      yield* code.retain(new Set())
      assert.deepStrictEqual(yield* code.freeze(source), first)
      const program = yield* code.programOf(String(first?.hash), "hello", file)
      assert.include(readFileSync(program, "utf8"), "another output")
      assert.deepStrictEqual(readdirSync(releases), [first?.hash])
    }))

  it.live("tells apart equal files of two projects, because their bundles name their own folders", () =>
    Effect.gen(function*() {
      const { code } = yield* make
      const mark = fresh("equal")
      const [one, two] = [yield* code.freeze(project(mark).source), yield* code.freeze(project(mark).source)]
      assert.deepStrictEqual(one?.files, two?.files)
      assert.notStrictEqual(one?.hash, two?.hash)
    }))

  it.live("refuses a missing file, a mistake and a broken import, with the reason and the remedy", () =>
    Effect.gen(function*() {
      const { code } = yield* make
      const { file, source } = project(fresh("refused"))
      writeFileSync(file, "const = 1")
      assert.match(
        yield* problemOf(code.freeze(source)),
        /handler\.ts cannot be deployed: it has mistakes:[^]*Correct them, then deploy again/
      )
      writeFileSync(file, `import "./missing.ts"`)
      assert.match(yield* problemOf(code.freeze(source)), /missing\.ts/)
      rmSync(file)
      assert.match(yield* problemOf(code.freeze(source)), /there is no such file\. Correct the path of the handler/)
      assert.isUndefined(yield* code.freeze({ type: "external" }))
    }))

  it.live("removes what a killed platform left half written", () =>
    Effect.gen(function*() {
      const { dataDir, releases } = yield* make
      mkdirSync(join(releases, ".new-1"), { recursive: true })
      mkdirSync(join(releases, "kept"))
      yield* FrozenCode.make({ dataDir, bundles: join(dataDir, "bundles"), bundle: {} })
      assert.deepStrictEqual(readdirSync(releases), ["kept"])
    }))

  it.live("copies the code for workers of another user, and again when the copy is missing", () =>
    Effect.gen(function*() {
      const dataDir = join(folder, fresh("data"))
      const copies = join(folder, fresh("cache"))
      const code = yield* FrozenCode.make({
        dataDir,
        bundles: join(dataDir, "bundles"),
        bundle: {},
        copies: { folder: copies, permissions: { file: 0o644, folder: 0o755 } }
      })
      const frozen = yield* code.freeze(project(fresh("copy")).source)
      const program = yield* code.programOf(String(frozen?.hash), "hello")
      assert.isTrue(program.startsWith(copies) && existsSync(program))
      rmSync(copies, { recursive: true })
      assert.strictEqual(yield* code.programOf(String(frozen?.hash), "hello"), program)
      assert.isTrue(existsSync(program))
    }))
})
