/**
 * Shared by the tests of uploads: the service with an environment and a job, and distinguishable contents.
 */
import { S3Server } from "@stint/s3/testing"
import { CurrentJob } from "@stint/worker/CurrentJob"
import type { ReceivedJob } from "@stint/worker/CurrentJob"
import { LogMemory } from "@stint/worker/testing"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Uploads } from "../src/index.ts"

/** The key of the test server, as a job's `s3Config` contains it. */
export const KEY = { accessId: S3Server.KEY.accessKeyId, accessSecret: S3Server.KEY.secretAccessKey } as const

/** The variables of a bucket. */
export const bucketEnvironment = (url: string, key: { readonly accessId: string; readonly accessSecret: string }) => ({
  BUCKET_ENDPOINT_URL: url,
  BUCKET_ACCESS_KEY_ID: key.accessId,
  BUCKET_SECRET_ACCESS_KEY: key.accessSecret
})

/** The service with these variables and no others. Callers may choose a storage service on this machine, because the test servers run there. */
export const layer = (env: Record<string, string>, options: Uploads.LayerOptions = {}) =>
  Layer.provide(Uploads.layerWith({ allow: ["127.0.0.1"], ...options }), ConfigProvider.layer(ConfigProvider.fromEnv({ env })))

/** Runs an effect with a current job. */
export const withJob = (job: Partial<ReceivedJob>) => <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.provideService(self, CurrentJob, { id: "job-1", input: {}, ...job })

/** Collects the log of the effect; returns it with the value. */
export const logged = Effect.fnUntraced(function*<A, E, R>(self: Effect.Effect<A, E, R>) {
  const log = LogMemory.make()
  const value = yield* Effect.provide(self, log.layer)
  return { value, lines: log.lines }
})

/** A folder that is removed with the scope. */
export const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "stint-uploads-"))),
  (path) => Effect.promise(() => rm(path, { recursive: true, force: true }))
)

/** Bytes in which every position differs from its neighbours, and every part differs from the other parts. */
export const pattern = (size: number): Buffer => {
  const bytes = Buffer.allocUnsafe(size)
  let state = 0x2545f491 ^ size
  for (let index = 0; index < size; index++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0
    bytes[index] = state >>> 24
  }
  return bytes
}

/** The status, headers and bytes of a URL. */
export const fetched = (url: URL) =>
  Effect.promise(async () => {
    const response = await fetch(url)
    const bytes = Buffer.from(await response.arrayBuffer())
    return { status: response.status, header: (name: string): string | null => response.headers.get(name), bytes }
  })
