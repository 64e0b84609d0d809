/**
 * Tests a bucket as a payload store, with a real server and with a hostile server.
 */
import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import { payloadStoreSuite } from "@stint/payloads-testing"
import { PayloadKey, PayloadStore } from "@stint/payloads/PayloadStore"
import { S3Server } from "@stint/s3/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { execFile } from "node:child_process"
import { randomUUID } from "node:crypto"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { join } from "node:path"
import { promisify } from "node:util"
import { S3PayloadStore } from "../src/index.ts"

const key = PayloadKey.make("a/job/input")
const text = (value: string) => new TextEncoder().encode(value)

let server: S3Server.S3Server
beforeAll(async () => {
  server = await S3Server.start({ buckets: ["payloads"], allowMismatchedSignatures: true })
})
afterAll(() => server.stop())

const options = (changes: Partial<S3PayloadStore.Options> = {}): S3PayloadStore.Options => ({
  bucket: "payloads",
  endpoint: server.url,
  accessKeyId: S3Server.KEY.accessKeyId,
  secretAccessKey: Redacted.make(S3Server.KEY.secretAccessKey),
  attempts: 1,
  ...changes
})

// Each test has its own prefix, so its store is empty.
payloadStoreSuite(
  "bucket",
  Layer.unwrap(Effect.sync(() => S3PayloadStore.layer(options({ prefix: `of/${randomUUID()}`, attempts: 10 })))),
  {
    runs: 10
  }
)

/** Uses a store with these settings. */
const using = <A, E>(
  settings: S3PayloadStore.Options,
  use: (store: PayloadStore["Service"]) => Effect.Effect<A, E>
) => Effect.flatMap(PayloadStore, use).pipe(Effect.provide(S3PayloadStore.layer(settings)))

describe("a bucket of payloads", () => {
  it.live("is listed completely, page by page, when it has more objects than one page", () =>
    Effect.scoped(Effect.gen(function*() {
      const names = Array.from({ length: 7 }, (_, n) => `a/job-${n}/part.${n}`)
      const settings = yield* hostile((request, response) => {
        const query = new URL(request.url ?? "", "http://storage").searchParams
        const from = Number(query.get("continuation-token") ?? 0)
        expect(query.get("prefix")).toBe("mine/a/")
        const page = names.slice(from, from + 3)
        const next = from + 3 < names.length
          ? `<IsTruncated>true</IsTruncated><NextContinuationToken>${from + 3}</NextContinuationToken>`
          : "<IsTruncated>false</IsTruncated>"
        response.writeHead(200, { "content-type": "application/xml" })
        response.end(
          `<?xml version="1.0"?><ListBucketResult>${next}${
            page.map((name) => `<Contents><Key>mine/${name}</Key></Contents>`).join("")
          }</ListBucketResult>`
        )
      })
      const listed = yield* using({ ...settings, prefix: "mine" }, (store) => Stream.runCollect(store.list(PayloadKey.make("a"))))
      expect([...listed]).toEqual(names)
    })))

  it.live("fails to open when it does not exist or rejects the key, with the reason and without the key", () =>
    Effect.gen(function*() {
      const open = (changes: Partial<S3PayloadStore.Options>) => Effect.flip(using(options(changes), () => Effect.void))
      const absent = yield* open({ bucket: "nowhere" })
      expect(absent.message).toContain("NoSuchBucket")
      expect(absent.message).toContain("\"nowhere\"")
      const secret = "a-secret-that-nobody-must-see"
      const strict = yield* hostile((_, response) => {
        response.writeHead(403, { "content-type": "application/xml" })
        response.end(
          `<?xml version="1.0"?><Error><Code>SignatureDoesNotMatch</Code><Message>You, S3RVER, signed with ${secret}.</Message></Error>`
        )
      }, /never/)
      const wrong = yield* open({ endpoint: strict.endpoint, secretAccessKey: Redacted.make(secret) })
      expect(wrong.message).toMatch(/SignatureDoesNotMatch.*check the secret/)
      const unknown = yield* open({ accessKeyId: "AKIDNOBODY" })
      expect(unknown.message).toContain("InvalidAccessKeyId")
      for (const error of [absent, wrong, unknown]) {
        expect(error.reason).toMatchObject({ _tag: "Unavailable", operation: "open" })
        expect(JSON.stringify(error) + error.message).not.toMatch(/a-secret-that|AKIDNOBODY|S3RVER/)
      }
      const refused = yield* open({ endpoint: "http://127.0.0.1:9" })
      expect(refused.message).toContain("ECONNREFUSED")
    }).pipe(Effect.scoped))

  it("loads no AWS code on import (P8)", async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [join(import.meta.dirname, "fixtures/loaded.ts")], {
      env: { PATH: process.env["PATH"] }
    })
    const { all, aws } = JSON.parse(stdout)
    expect(all).toBeGreaterThan(10)
    expect(aws).toBe(0)
  })
})

/** A storage service that sends the given responses, except to the request that opens it. */
const hostile = Effect.fnUntraced(function*(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  opening = /max-keys=1/
) {
  const http = createServer((request, response) => {
    request.resume()
    request.on("end", () => {
      if (opening.test(request.url ?? "")) {
        response.writeHead(200, { "content-type": "application/xml" })
        response.end("<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
      } else answer(request, response)
    })
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve))),
    () =>
      Effect.promise(() => {
        http.closeAllConnections()
        return new Promise<void>((resolve) => void http.close(() => resolve()))
      })
  )
  const address = http.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return options({ endpoint: `http://127.0.0.1:${port}`, silenceTimeout: "300 millis" })
})

describe("a storage service that misbehaves", () => {
  it.live("is cut off when it sends more bytes than the object has", () =>
    Effect.scoped(Effect.gen(function*() {
      let sent = 0
      const settings = yield* hostile((_, response) => {
        response.writeHead(200, { "content-type": "application/json" })
        const more = () => {
          while (!response.destroyed && sent < 200_000_000) {
            sent += 65_536
            if (!response.write(Buffer.alloc(65_536))) {
              response.once("drain", more)
              return
            }
          }
        }
        more()
      })
      const error = yield* Effect.flip(using(settings, (store) => store.get(key, 1_000)))
      expect(error.reason._tag).toBe("Damaged")
      expect(sent).toBeLessThan(100_000_000)
    })))

  it.live("does not pass a truncated body off as the object", () =>
    Effect.scoped(Effect.gen(function*() {
      const short = yield* hostile((_, response) => response.end("12345"))
      expect((yield* Effect.flip(using(short, (store) => store.get(key, 6)))).reason._tag).toBe("Damaged")
      const broken = yield* hostile((_, response) => {
        response.writeHead(200, { "content-length": "10" })
        response.write("12345")
        setImmediate(() => response.destroy())
      })
      expect((yield* Effect.flip(using(broken, (store) => store.get(key, 10)))).reason._tag).not.toBe("Missing")
    })))

  it.live("is unavailable when it never responds, or responds only with errors", () =>
    Effect.scoped(Effect.gen(function*() {
      const silent = yield* hostile(() => {})
      const failing = yield* hostile((_, response) => {
        response.writeHead(503, { "content-type": "application/xml" })
        response.end(
          "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
        )
      })
      for (const settings of [silent, failing]) {
        yield* using(settings, (store) =>
          Effect.gen(function*() {
            const calls = [
              store.put(key, text("1")),
              Effect.asVoid(store.get(key, 1)),
              store.remove(key),
              Stream.runDrain(store.list(key))
            ]
            for (const call of calls) expect((yield* Effect.flip(call)).reason._tag).toBe("Unavailable")
          }))
      }
      const error = yield* Effect.flip(using(failing, (store) => store.get(key, 1)))
      expect(error.message).toContain("503 SlowDown: Please reduce your request rate")
    })), 30_000)

  it.live("has not stored an object when it returns 200 for everything, as a web site does", () =>
    Effect.scoped(Effect.gen(function*() {
      const site = yield* hostile((_, response) => response.end("<html>Welcome</html>"))
      const error = yield* Effect.flip(using(site, (store) => store.put(key, text("1"))))
      expect(error.message).toContain("web site")
    })))

  it.live("is unavailable when its bucket is gone, instead of reporting its objects as missing", () =>
    Effect.scoped(Effect.gen(function*() {
      const gone = yield* hostile((_, response) => {
        response.writeHead(404, { "content-type": "application/xml" })
        response.end("<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>It is gone.</Message></Error>")
      })
      expect((yield* Effect.flip(using(gone, (store) => store.get(key, 1)))).reason._tag).toBe("Unavailable")
    })))
})
