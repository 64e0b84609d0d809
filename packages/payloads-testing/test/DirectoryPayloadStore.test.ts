/**
 * Tests the rules for a folder that are not in the suite: it survives crashes, and a missing disk differs from a missing object.
 */
import { describe, expect, it } from "@effect/vitest"
import { DirectoryPayloadStore, PayloadStore } from "@stint/payloads"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { chmod, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { tempFolder } from "./TempFolder.ts"

const key = PayloadStore.PayloadKey.make("a/job/input")
const bytes = new TextEncoder().encode("{}")

const collect = (store: PayloadStore.PayloadStore["Service"]) =>
  Effect.map(Stream.runCollect(store.list(PayloadStore.PayloadKey.make("a"))), (keys) => [...keys])

const over = <A, E>(folder: string, use: (store: PayloadStore.PayloadStore["Service"]) => Effect.Effect<A, E>) =>
  Effect.flatMap(PayloadStore.PayloadStore, use).pipe(Effect.provide(DirectoryPayloadStore.layer({ folder })))

describe("a folder of payloads", () => {
  it.live("stores each object as a file under its key, readable only by the owner, and persists it", () =>
    Effect.gen(function*() {
      const folder = yield* tempFolder
      yield* over(folder, (store) => store.put(key, bytes))
      expect(yield* Effect.promise(() => readFile(join(folder, key), "utf8"))).toBe("{}")
      expect((yield* Effect.promise(() => stat(join(folder, key)))).mode & 0o777).toBe(0o600)
      expect((yield* Effect.promise(() => stat(dirname(join(folder, key))))).mode & 0o777).toBe(0o700)
      expect([...yield* over(folder, (store) => store.get(key, 2))]).toEqual([...bytes])
    }).pipe(Effect.scoped))

  it.live("corrects a folder that other users can access, and refuses one that also holds other files", () =>
    Effect.gen(function*() {
      const folder = yield* tempFolder
      const mode = Effect.promise(async () => (await stat(folder)).mode & 0o777)
      yield* over(folder, (store) => store.put(key, bytes))
      yield* Effect.promise(() => chmod(folder, 0o755))
      yield* over(folder, (store) => store.get(key, 2))
      expect(yield* mode).toBe(0o700)

      yield* Effect.promise(() => rm(folder, { recursive: true }))
      yield* Effect.promise(() => mkdir(folder))
      yield* Effect.promise(() => writeFile(join(folder, "theirs"), ""))
      yield* Effect.promise(() => chmod(folder, 0o755))
      const { reason } = yield* Effect.flip(over(folder, () => Effect.void))
      expect(reason).toMatchObject({
        operation: "open",
        problem: expect.stringMatching(/other users can access it \(mode 755\).*chmod 700/)
      })
      expect(yield* mode).toBe(0o755)
    }).pipe(Effect.scoped))

  it.live("removes the incomplete files that a crash left, and lists only objects", () =>
    Effect.gen(function*() {
      const folder = yield* tempFolder
      yield* over(folder, (store) => store.put(key, bytes))
      yield* Effect.promise(() => writeFile(join(folder, ".parts", "half"), "{\"half"))
      yield* Effect.promise(() => writeFile(join(folder, "a", "job", "not a key"), ""))
      expect(yield* over(folder, (store) => Effect.succeed(store.description))).toContain(folder)
      expect(yield* Effect.promise(() => readdir(join(folder, ".parts")))).toEqual([])
      const listed = yield* over(folder, (store) => collect(store))
      expect(listed).toEqual([key])
    }).pipe(Effect.scoped))

  it.live("is unavailable when it is missing, like an unmounted disk, instead of reporting missing objects", () =>
    Effect.gen(function*() {
      const folder = yield* tempFolder
      yield* over(folder, (store) =>
        Effect.gen(function*() {
          yield* store.put(key, bytes)
          yield* Effect.promise(() => rename(folder, `${folder}.away`))
          yield* Effect.promise(() => mkdir(folder))
          for (const call of [Effect.asVoid(store.get(key, 2)), store.put(key, bytes), Effect.asVoid(collect(store))]) {
            const { reason } = yield* Effect.flip(call)
            expect(reason).toMatchObject({ _tag: "Unavailable", problem: expect.stringContaining("mounted") })
          }
          yield* Effect.promise(() => rm(folder, { recursive: true }))
          yield* Effect.promise(() => rename(`${folder}.away`, folder))
          expect((yield* store.get(key, 2)).byteLength).toBe(2)
        }))
    }).pipe(Effect.scoped))

  it.live("fails to open with its path and the reason when it cannot be created", () =>
    Effect.gen(function*() {
      const folder = yield* tempFolder
      yield* Effect.promise(() => mkdir(dirname(dirname(folder)), { recursive: true }))
      yield* Effect.promise(() => writeFile(dirname(folder), "a file"))
      const error = yield* Effect.flip(over(folder, () => Effect.void))
      expect(error.message).toContain(folder)
      expect(error.reason).toMatchObject({ _tag: "Unavailable", operation: "open" })
    }).pipe(Effect.scoped))
})
