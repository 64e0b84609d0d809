/**
 * Properties for any tree, any change, any interleaving of two writers, and a kill at any moment.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as fc from "fast-check"
import * as fs from "node:fs"
import { join } from "node:path"
import { unsafeLinkReason } from "../src/RelativePath.ts"
import * as VolumeFiles from "../src/VolumeFiles.ts"
import * as Kit from "./CacheHarness.ts"
import * as Faults from "./FaultyVolume.ts"
import * as Trees from "./FileTrees.ts"

/** The part of a tree that can be mirrored: all but links to targets outside. */
const mirrored = (tree: { readonly [path: string]: string }) =>
  Object.fromEntries(
    Object.entries(tree).filter(([path, node]) => !node.startsWith("-> ") || unsafeLinkReason(path, node.slice(3)) === undefined)
  )

describe("any tree", () => {
  it("property: sync and hydrate reproduce the tree after any changes, by one process or several", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(Trees.step, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 4 }),
        fc.boolean(),
        (rounds, restart) =>
          Kit.run((kit) =>
            Effect.gen(function*() {
              let worker = yield* kit.start("a")
              fs.mkdirSync(worker.root, { recursive: true })
              for (const steps of rounds) {
                for (const step of steps) Trees.apply(worker.root, step)
                yield* worker.sync
                const cold = yield* kit.cold()
                expect(cold.hydrated).toMatchObject({
                  damaged: 0,
                  skipped: 0,
                  differing: 0,
                  complete: true,
                  firstError: undefined
                })
                expect(Trees.read(cold.root)).toEqual(mirrored(Trees.read(worker.root)))
                // Either a cold worker continues, or the same one with its state.
                if (restart) worker = cold.cache
              }
            })
          )
      ),
      { numRuns: 60, endOnFailure: true }
    )
  })
})

/** Runs one operation at a time: the next one is chosen when every participant waits for its turn. */
const turns = (choices: ReadonlyArray<number>) => {
  const waiting: Array<{ readonly who: string; readonly go: () => void }> = []
  const live = new Set<string>()
  let turn = 0
  const look = () => {
    if (waiting.length === 0 || [...live].some((who) => !waiting.some((one) => one.who === who))) return
    const [next] = waiting.splice((choices[turn++ % choices.length] ?? 0) % waiting.length, 1)
    next?.go()
  }
  const files = (who: string) =>
    Faults.around((_operation, _path, run) =>
      live.has(who)
        ? Effect.andThen(
          Effect.callback<void>((resume) => {
            waiting.push({ who, go: () => resume(Effect.void) })
            look()
          }),
          // A participant may have no further operation.
          Effect.ensuring(run, Effect.sync(look))
        )
        : run
    )
  /** Runs a participant from start to end. */
  const participate = <A, E, R>(who: string, effect: Effect.Effect<A, E, R>) =>
    Effect.ensuring(
      Effect.andThen(Effect.yieldNow, effect),
      Effect.sync(() => {
        live.delete(who)
        look()
      })
    )
  return { files, participate, join: (who: string) => live.add(who) }
}

describe("two writers at once", () => {
  const file = fc.record({ name: fc.constantFrom("a", "b", "c", "d", "e", "f"), size: fc.constantFrom(1, 200) })
  const additions = fc.uniqueArray(file, { minLength: 1, maxLength: 5, selector: ({ name }) => name })

  it("property: lose nothing in any order of their operations, and a reader finds only complete files", async () => {
    await fc.assert(
      fc.asyncProperty(
        additions,
        additions,
        fc.array(fc.nat({ max: 100 }), { minLength: 20, maxLength: 60 }),
        (one, two, choices) =>
          Kit.run((kit) =>
            Effect.gen(function*() {
              const { files, join: takePart, participate } = turns(choices)
              const [a, b] = [yield* kit.start("a", { files: files("a") }), yield* kit.start("b", { files: files("b") })]
              const texts = new Map<string, Set<string>>()
              const put = (root: string, who: string, all: typeof one) => {
                for (const { name, size } of all) {
                  const text = `${name} by ${who} `.repeat(size)
                  Trees.write(root, { [name]: { text } })
                  texts.set(name, (texts.get(name) ?? new Set()).add(text))
                }
              }
              const expectWhole = (root: string) => {
                for (const name of fs.existsSync(root) ? fs.readdirSync(root) : []) {
                  expect(texts.get(name)).toContain(fs.readFileSync(join(root, name), "utf8"))
                }
              }
              put(a.root, "a", one)
              put(b.root, "b", two)
              for (const who of ["a", "b", "reader"]) takePart(who)
              const [, , reader] = yield* Effect.all([
                participate("a", a.sync),
                participate("b", b.sync),
                participate("reader", kit.cold({ files: files("reader") }))
              ], { concurrency: "unbounded" })
              expect(reader.hydrated).toMatchObject({ damaged: 0, skipped: 0, complete: true, firstError: undefined })
              expectWhole(reader.root)
              const { hydrated, root } = yield* kit.cold()
              expect(hydrated).toMatchObject({ damaged: 0, complete: true, firstError: undefined })
              expectWhole(root)
              expect(fs.readdirSync(root).sort()).toEqual([...texts.keys()].sort())
            })
          )
      ),
      { numRuns: 80, endOnFailure: true }
    )
  })

  it("property: without hard links, a reader finds only complete files, and the next syncs restore lost additions", async () => {
    await fc.assert(
      fc.asyncProperty(
        additions,
        additions,
        fc.array(fc.nat({ max: 100 }), { minLength: 20, maxLength: 60 }),
        (one, two, choices) =>
          Kit.run((kit) =>
            Effect.gen(function*() {
              const { files, join: takePart, participate } = turns(choices)
              const without = (who: string) =>
                Faults.around(
                  (operation, path, run) => operation === "link" ? Effect.fail(Faults.fault("link", path, "EPERM")) : run,
                  files(who)
                )
              const [a, b] = [yield* kit.start("a", { files: without("a") }), yield* kit.start("b", { files: without("b") })]
              Trees.write(a.root, Object.fromEntries(one.map(({ name, size }) => [`a-${name}`, { text: "a".repeat(size) }])))
              Trees.write(b.root, Object.fromEntries(two.map(({ name, size }) => [`b-${name}`, { text: "b".repeat(size) }])))
              for (const who of ["a", "b"]) takePart(who)
              yield* Effect.all([participate("a", a.sync), participate("b", b.sync)], { concurrency: "unbounded" })
              expect((yield* kit.cold()).hydrated).toMatchObject({ damaged: 0, complete: true, firstError: undefined })
              yield* a.sync
              yield* b.sync
              const { root } = yield* kit.cold()
              expect(Trees.read(root)).toEqual({ ...Trees.read(a.root), ...Trees.read(b.root) })
            })
          )
      ),
      { numRuns: 40, endOnFailure: true }
    )
  })
})

describe("a kill -9", () => {
  const old: Trees.Tree = {
    same: { text: "same", mtime: 1_600_000_000 },
    small: { text: "old small", mtime: 1_600_000_000 },
    "d/large": { text: "old large ".repeat(20), mtime: 1_600_000_000 }
  }
  const changed: Trees.Tree = {
    small: { text: "new small" },
    "d/large": { text: "new large ".repeat(30) },
    "e/added": { text: "added" },
    "e/link": { link: "added" }
  }

  it.effect.each([false, true])(
    "at every change to the volume leaves a mirror that can be read and written (torn writes: %s)",
    (torn) =>
      Effect.gen(function*() {
        let crashes = 0
        for (let at = 0, died = true; died; at++) {
          died = yield* Effect.scoped(Effect.gen(function*() {
            const kit = yield* Kit.make
            const a = yield* kit.start("a")
            Trees.write(a.root, old)
            yield* a.sync
            const before = Trees.read(a.root)

            const { died, files } = Faults.crashing(at, torn)
            const b = yield* kit.start("b", { files })
            Trees.write(b.root, changed)
            const after = Trees.read(b.root)
            yield* Effect.exit(b.sync)

            const cold = yield* kit.cold()
            expect(cold.hydrated).toMatchObject({ damaged: 0, skipped: 0, complete: true, firstError: undefined })
            const found = Trees.read(cold.root)
            for (const [path, node] of Object.entries(found)) expect([before[path], after[path]]).toContain(node)
            expect(Object.keys(found)).toEqual(expect.arrayContaining(Object.keys(before)))

            // The next worker on the same disk syncs everything.
            const again = yield* kit.start("b")
            yield* again.sync
            expect(Trees.read((yield* kit.cold()).root)).toEqual(after)
            return died()
          }))
          if (died) crashes++
        }
        expect(crashes).toBeGreaterThanOrEqual(8)
      })
  )

  it.effect("during a hydration leaves no partial file under its name", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const a = yield* kit.start("a")
      Trees.write(a.root, { "d/one": { text: "one" }, two: { text: "two" }, "d/large": { text: "large".repeat(50) } })
      yield* a.sync
      const whole = Trees.read(a.root)
      // The process is killed at each call that changes the disk, one after the other.
      const calls = [
        "mkdirSync",
        "openSync",
        "writeSync",
        "fchmodSync",
        "futimesSync",
        "linkSync",
        "renameSync",
        "symlinkSync",
        "unlinkSync"
      ] as const
      let deaths = 0
      for (let at = 0, died = true; died; at++) {
        died = false
        let count = 0
        const dying = Object.fromEntries(calls.map((call) => [call, (...args: ReadonlyArray<unknown>) => {
          if (died || count++ === at) {
            died = true
            throw new Error("EIO: killed")
          }
          return Reflect.apply(fs[call], fs, args)
        }]))
        const name = `killed-${at}`
        yield* Effect.exit(kit.start(name, { local: { ...dying, rmSync: () => {} } }))
        if (died) deaths++
        const found = fs.existsSync(kit.disk(name)) ? Trees.read(kit.disk(name)) : {}
        for (const [path, node] of Object.entries(found)) {
          if (!path.startsWith(".~stint-") && !node.startsWith("directory")) expect(node).toBe(whole[path])
        }
        // The next worker on that disk gets all files and mirrors no partial file.
        const again = yield* kit.start(name)
        yield* again.sync
        expect(Trees.read((yield* kit.cold()).root)).toEqual(whole)
      }
      expect(deaths).toBeGreaterThanOrEqual(6)
    }))
})

describe("losing a race", () => {
  it.effect("fails with a message after 100 lost races", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const real = VolumeFiles.make()
      const files = Faults.around((operation, path, run) =>
        operation === "link"
          // Another writer takes the name at the last moment.
          ? Effect.andThen(Effect.promise(() => fs.promises.writeFile(path, "{}", { flag: "wx" })), run)
          : run, real)
      const a = yield* kit.start("a", { files })
      Trees.write(a.root, { x: { text: "1" } })
      const exit = yield* Effect.exit(a.sync)
      expect(Exit.isSuccess(exit) && exit.value[0]).toMatchObject({
        complete: false,
        firstError: expect.stringMatching(/100 other writers published first/)
      })
    }))

  it.effect("recognizes its own generation when the response to the link is lost", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const files = Faults.around((operation, path, run) =>
        operation === "link" ? Effect.andThen(run, Effect.fail(Faults.fault("link", path, "EEXIST"))) : run
      )
      const a = yield* kit.start("a", { files })
      Trees.write(a.root, { x: { text: "1" } })
      expect((yield* a.sync)[0]).toMatchObject({ files: 1, generation: 1, complete: true })
    }))
})
