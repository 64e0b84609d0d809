import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import { client, fetched, http } from "./Loopback.ts"

it("loads undici with the first request, not with the import", () => {
  const script = `
    const { GuardedHttp } = await import("@stint/http-guard")
    const { createRequire } = await import("node:module")
    const loaded = () => Object.keys(createRequire(import.meta.url).cache).some((path) => /[\\\\/]undici[\\\\/]/.test(path))
    console.log(typeof GuardedHttp.layer, loaded())
    await import("undici")
    console.log(loaded())`
  const out = execFileSync(process.execPath, ["--input-type=module", "-e", script], {
    cwd: new URL("..", import.meta.url),
    encoding: "utf8"
  })
  expect(out.trim().split("\n")).toEqual(["object false", "true"])
})

it.effect("does not change the process's own fetch", () =>
  Effect.gen(function*() {
    const keys = ["1", "2"].map((version) => Symbol.for(`undici.globalDispatcher.${version}`))
    const before = keys.map((key): unknown => Reflect.get(globalThis, key))
    const server = yield* http((_, response) => response.end())
    yield* fetched(`http://127.0.0.2:${server.port}/`)
    expect(keys.map((key): unknown => Reflect.get(globalThis, key))).toEqual(before)
    const answer = yield* Effect.promise(() => fetch(`http://127.0.0.2:${server.port}/`))
    expect(answer.status).toBe(200)
  }).pipe(Effect.provide(client())))
