import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as fc from "fast-check"
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises"
import { join, relative, sep } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { Uploads } from "../src/index.ts"
import { folder, layer, logged, pattern, withJob } from "./UploadsHarness.ts"

const readUrl = (url: URL) => Effect.promise(() => readFile(url))
const everything = (path: string) => Effect.promise(() => readdir(path, { recursive: true }))

/** Runs with an upload folder inside another folder, so that tests see files written outside it. */
const withFolder = <A, E>(
  test: (folder: string, outside: string) => Effect.Effect<A, E, Uploads.Uploads>,
  env: Record<string, string> = {}
) =>
  Effect.scoped(Effect.gen(function*() {
    const outside = yield* folder
    const inside = join(outside, "uploads")
    return yield* Effect.provide(test(inside, outside), layer(env, { folder: inside }))
  }))

// docs/spec/uploads.md#upload-rule
describe("without a bucket", () => {
  it.effect("writes a file to the folder and returns a file: URL", () =>
    withFolder((inside) =>
      Effect.gen(function*() {
        const source = join(yield* folder, "photo.png")
        yield* Effect.promise(() => writeFile(source, pattern(3_000_000)))
        const url = yield* Uploads.file(source).pipe(withJob({ id: "job-5" }))
        expect(url.href).toBe(pathToFileURL(join(inside, "job-5/photo.png")).href)
        expect((yield* readUrl(url)).equals(pattern(3_000_000))).toBe(true)
      }).pipe(Effect.scoped)
    ))

  it.effect("writes bytes, strings and streams to the folder", () =>
    withFolder((inside) =>
      Effect.gen(function*() {
        const one = yield* Uploads.bytes(pattern(10), { key: "a.bin" })
        const two = yield* Uploads.bytes("Grüße", { key: "b.txt", prefix: "texts" })
        const three = yield* Uploads.stream(Stream.make(pattern(5), pattern(6)), { key: "c" })
        expect((yield* readUrl(one)).equals(pattern(10))).toBe(true)
        expect(String(yield* readUrl(two))).toBe("Grüße")
        expect((yield* readUrl(three)).equals(Buffer.concat([pattern(5), pattern(6)]))).toBe(true)
        expect((yield* everything(inside)).sort()).toEqual(["a.bin", "c", "texts", join("texts", "b.txt")])
      })
    ))

  it.effect("overwrites a file of the same name, as a bucket does", () =>
    withFolder((inside) =>
      Effect.gen(function*() {
        yield* Uploads.bytes("a longer text", { key: "a.txt" })
        const url = yield* Uploads.bytes("short", { key: "a.txt" })
        expect(String(yield* readUrl(url))).toBe("short")
        expect(yield* everything(inside)).toEqual(["a.txt"])
      })
    ))

  it.effect("the log states this once, in one line, with the variables to set", () =>
    withFolder(() =>
      Effect.gen(function*() {
        const { lines } = yield* logged(Effect.andThen(Uploads.bytes("1"), Uploads.bytes("2")))
        expect(lines).toHaveLength(1)
        expect(lines[0]?.level).toBe("INFO")
        for (const name of ["BUCKET_ENDPOINT_URL", "BUCKET_ACCESS_KEY_ID", "BUCKET_SECRET_ACCESS_KEY"]) {
          expect(lines[0]?.message).toContain(name)
        }
      })
    ))

  it.effect.each(["PLATFORM_WEBHOOK_GET_JOB", "RUNPOD_WEBHOOK_GET_JOB"])(
    "logs that line as a warning on a platform, where no caller can fetch the files: %s",
    (variable) =>
      withFolder(() =>
        Effect.gen(function*() {
          const { lines } = yield* logged(Effect.andThen(Uploads.bytes("1"), Uploads.bytes("2")))
          expect(lines.map(({ level }) => level)).toEqual(["WARN"])
          expect(lines[0]?.message).toContain("no caller can fetch them")
        }), { [variable]: "http://127.0.0.1:1/job-take/$ID" })
  )

  it.effect("leaves no part of an incomplete file behind", () =>
    withFolder((inside) =>
      Effect.gen(function*() {
        const broken = Stream.concat(Stream.make(pattern(10)), Stream.fail("broken" as const))
        expect(yield* Effect.flip(Uploads.stream(broken, { key: "a/b" }))).toBe("broken")
        const fiber = yield* Effect.forkChild(
          Uploads.stream(Stream.concat(Stream.make(pattern(10)), Stream.never), { key: "a/c" }),
          { startImmediately: true }
        )
        yield* Fiber.interrupt(fiber)
        expect(yield* everything(inside)).toEqual(["a"])
      })
    ))

  it.effect("fails with FolderUnwritable when the folder cannot be written", () =>
    withFolder((inside) =>
      Effect.gen(function*() {
        yield* Effect.promise(() => writeFile(inside, "in the way"))
        const error = yield* Effect.flip(Uploads.bytes("x", { key: "a" }))
        expect(error.reason).toMatchObject({ _tag: "FolderUnwritable", folder: inside })
        expect(error.message).toContain(inside)
      })
    ))

  it.effect("fails with FolderUnwritable for the name of a folder, and keeps that folder", () =>
    withFolder((inside) =>
      Effect.gen(function*() {
        yield* Effect.promise(() => mkdir(join(inside, "a"), { recursive: true }))
        const error = yield* Effect.flip(Uploads.bytes("x", { key: "a" }))
        expect(error.reason._tag).toBe("FolderUnwritable")
        expect(yield* everything(inside)).toEqual(["a"])
      })
    ))
})

describe("any name", () => {
  const name = fc.string({
    unit: fc.constantFrom("..", ".", "/", "\\", "\u0000", " ", "a", "b", ":", "~", "%2e", "%2f", "\n", "é"),
    maxLength: 12
  })

  it("is written inside the folder, and the URL leads to the file", () =>
    fc.assert(
      fc.asyncProperty(name, name, name, fc.boolean(), (job, own, prefix, whole) =>
        Effect.runPromise(withFolder((inside, outside) =>
          Effect.gen(function*() {
            const options = whole ? { key: `k${own}`, prefix } : { name: own, prefix }
            const url = yield* Uploads.bytes("here", options).pipe(withJob({ id: job }))
            const path = relative(inside, fileURLToPath(url))
            expect(path === ".." || path.startsWith(`..${sep}`)).toBe(false)
            expect(
              yield* Effect.promise(() =>
                readdir(outside)
              )
            ).toEqual(["uploads"])
            expect(String(yield* readUrl(url))).toBe("here")
          })
        ))),
      { numRuns: 60 }
    ))
})

describe("layerLocal", () => {
  it.effect("writes to its folder, whatever the job specifies", () =>
    Effect.scoped(Effect.gen(function*() {
      const inside = yield* folder
      const s3Config = { accessId: "a", accessSecret: "b", bucketName: "c", endpointUrl: "http://127.0.0.1:1" }
      const url = yield* Uploads.bytes("x", { key: "a" }).pipe(
        withJob({ s3Config }),
        Effect.provide(Layer.fresh(Uploads.layerLocal(inside)))
      )
      expect(fileURLToPath(url)).toBe(join(inside, "a"))
    })))
})

describe("toText", () => {
  it("returns a file's path, relative to the working directory if it is below it", () => {
    expect(Uploads.toText(pathToFileURL(join(process.cwd(), "local_upload/a b.png")))).toBe(join("local_upload", "a b.png"))
    expect(Uploads.toText(pathToFileURL("/elsewhere/a.png"))).toBe("/elsewhere/a.png")
  })

  it("returns any other URL unchanged", () => {
    expect(Uploads.toText(new URL("https://h/b/a%20b?X-Amz-Expires=1"))).toBe("https://h/b/a%20b?X-Amz-Expires=1")
  })
})
