import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { Uploads } from "../src/index.ts"
import * as ProgressBar from "../src/ProgressBar.ts"
import { HostileStorage } from "./HostileStorage.ts"
import { bucketEnvironment, layer, pattern } from "./UploadsHarness.ts"

const CLEAR = "\r\u001b[K"

const terminal = (columns = 100) => {
  const written: Array<string> = []
  return { written, bar: ProgressBar.make({ write: (text) => void written.push(text), columns: () => columns }) }
}

const shown = (written: ReadonlyArray<string>) => written.map((text) => text.replace(CLEAR, ""))

describe("the progress of an upload on a terminal", () => {
  it.effect("is one line with percentage, amount and speed, which disappears at the end", () => {
    const { bar, written } = terminal()
    return Effect.gen(function*() {
      yield* Effect.scoped(Effect.gen(function*() {
        const advance = yield* bar.show("photo.png", 30_000_000)
        yield* TestClock.adjust("1 second")
        yield* advance(12_300_000)
        yield* TestClock.adjust("1 second")
        yield* advance(17_700_000)
      }))
      expect(shown(written)).toEqual([
        "photo.png  ░░░░░░░░░░░░░░░░░░░░  0 %  0.0 of 30.0 MB",
        "photo.png  ████████░░░░░░░░░░░░  41 %  12.3 of 30.0 MB  12.3 MB/s",
        "photo.png  ████████████████████  100 %  30.0 of 30.0 MB  15.0 MB/s",
        ""
      ])
      expect(written.every((text) => text.startsWith(CLEAR) && !text.includes("\n"))).toBe(true)
    })
  })

  it.effect("is drawn at most ten times a second", () => {
    const { bar, written } = terminal()
    return Effect.scoped(Effect.gen(function*() {
      const advance = yield* bar.show("a", 1_000_000)
      for (let time = 0; time < 1000; time += 10) {
        yield* TestClock.adjust(10)
        yield* advance(1_000)
      }
      expect(written.length).toBeLessThanOrEqual(11)
      expect(written.length).toBeGreaterThanOrEqual(9)
    }))
  })

  it.effect("shares its line with other uploads", () => {
    const { bar, written } = terminal()
    return Effect.gen(function*() {
      yield* Effect.scoped(Effect.gen(function*() {
        yield* bar.show("a", 1000)
        yield* Effect.scoped(Effect.flatMap(bar.show("b", 3000), (advance) => advance(1000)))
      }))
      expect(shown(written).map((text) => text.split("  ")[0])).toEqual(["a", "2 uploads", "a", ""])
    })
  })

  it.effect("shows the uploaded amount when the size is unknown", () => {
    const { bar, written } = terminal()
    return Effect.scoped(Effect.gen(function*() {
      const advance = yield* bar.show("a", undefined)
      yield* TestClock.adjust("2 seconds")
      yield* advance(5_000)
      expect(shown(written).at(-1)).toBe("a  5.0 kB  2.5 kB/s")
    }))
  })

  it.effect.each([20, 40, 60])("is never wider than %i columns", (columns) => {
    const { bar, written } = terminal(columns)
    return Effect.scoped(Effect.gen(function*() {
      const advance = yield* bar.show("n".repeat(200), 12_345_678_901)
      yield* TestClock.adjust("1 second")
      yield* advance(1_234_567_890)
      for (const text of shown(written)) expect(text.length).toBeLessThan(columns)
    }))
  })

  it.live("counts the parts of a real upload, and prints a safe name", () => {
    const { bar, written } = terminal()
    return Effect.scoped(Effect.gen(function*() {
      const storage = yield* Effect.acquireRelease(
        Effect.promise(async () => {
          const storage = new HostileStorage()
          await storage.up()
          return storage
        }),
        (storage) => Effect.promise(() => storage.down())
      )
      const uploads = layer(bucketEnvironment(`${storage.url}/results`, { accessId: "k", accessSecret: "s" }), {
        partSize: 5 * 1024 * 1024,
        progress: bar
      })
      yield* Uploads.bytes(pattern(11_000_000), { name: "a\u001b[2J.png" }).pipe(Effect.provide(uploads))
      expect(shown(written)[0]).toBe("a_[2J.png  ░░░░░░░░░░░░░░░░░░░░  0 %  0.0 of 11.0 MB")
      expect(shown(written)).toContainEqual(expect.stringContaining("100 %  11.0 of 11.0 MB"))
      expect(written.at(-1)).toBe(CLEAR)
    }))
  })

  it("is not shown when standard error is not a terminal, or the log is JSON", () => {
    const { isTTY } = process.stderr
    try {
      process.stderr.isTTY = false
      expect(ProgressBar.terminal(false)).toBe(ProgressBar.none)
      process.stderr.isTTY = true
      expect(ProgressBar.terminal(true)).toBe(ProgressBar.none)
      expect(ProgressBar.terminal(false)).not.toBe(ProgressBar.none)
    } finally {
      process.stderr.isTTY = isTTY
    }
  })
})
