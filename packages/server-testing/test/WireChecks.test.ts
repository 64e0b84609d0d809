/**
 * The checks of `pnpm wire` pass against Stint, and report a server that does not do what they require.
 */
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import { ADMIN_KEY, layer as layerServer, ServerTest } from "../src/ServerTest.ts"
import { wireChecks, type WireServer } from "../src/wire/WireChecks.ts"

const open = Effect.gen(function*() {
  const { baseUrl, endpoint } = yield* ServerTest
  const { id, worker } = yield* endpoint()
  const { key } = yield* worker()
  const server: WireServer = { url: baseUrl, key: ADMIN_KEY, endpoint: id, workerKey: key }
  return server
})

/** A server in front of another one that changes its responses. */
const changing = (
  server: WireServer,
  change: (body: string, path: string) => { readonly status?: number; readonly body: string }
) =>
  Effect.acquireRelease(
    Effect.promise(() =>
      new Promise<{ readonly server: WireServer; readonly close: () => void }>((resolve) => {
        const proxy = createServer((request, response) => {
          void (async () => {
            const parts: Array<Uint8Array> = []
            for await (const part of request) parts.push(part)
            const { host: _, "content-length": __, connection: ___, ...headers } = request.headers
            const given = await fetch(`${server.url}${request.url}`, {
              method: request.method ?? "GET",
              headers: headers as Record<string, string>,
              ...(parts.length === 0 ? {} : { body: Buffer.concat(parts) })
            })
            const { body, status = given.status } = change(await given.text(), request.url ?? "")
            response.writeHead(status, { "content-type": given.headers.get("content-type") ?? "application/json" })
            response.end(status === 204 ? undefined : body)
          })()
        })
        proxy.listen(0, "127.0.0.1", () => {
          const address = proxy.address()
          const port = typeof address === "object" && address !== null ? address.port : 0
          resolve({ server: { ...server, url: `http://127.0.0.1:${port}` }, close: () => proxy.close() })
        })
      })
    ),
    ({ close }) => Effect.sync(close)
  )

const failures = (server: WireServer) =>
  Effect.promise(async () => {
    const failed: Array<number> = []
    for (const { requirement, run } of wireChecks) await run(server).catch(() => failed.push(requirement))
    return failed
  })

layer(layerServer(), { excludeTestServices: true })("the wire checks", (it) => {
  it.effect.each(wireChecks)("$requirement: Stint $title", ({ run }) =>
    Effect.gen(function*() {
      const server = yield* open
      yield* Effect.promise(() => run(server))
    }))

  it.effect("report a server that leaves out `stream`, and one that rejects what it does not know", () =>
    Effect.gen(function*() {
      const server = yield* open
      const without = yield* changing(server, (body) => ({ body: body.replace("\"stream\":", "\"chunks\":") }))
      expect(yield* failures(without.server)).toEqual(expect.arrayContaining([9, 14]))
      const strict = yield* changing(server, (body, path) => path.includes("unknown=") ? { status: 400, body: "{}" } : { body })
      expect(yield* failures(strict.server)).toEqual([11])
    }))

  it.effect("cover the requirements of the page, except for the size of a result", () =>
    Effect.sync(() => {
      const page = readFileSync(new URL("../../../docs/spec/compatibility.md", import.meta.url), "utf8")
      const numbers = [...page.matchAll(/^\| (\d+) +\|/gm)].map(([, number]) => Number(number))
      expect(numbers).toHaveLength(17)
      expect(numbers.filter((number) => !wireChecks.some(({ requirement }) => requirement === number))).toEqual([7])
    }))
})
