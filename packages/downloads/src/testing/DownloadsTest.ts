/**
 * Downloads that need no network: the test provides the content of each URL. Names, limits, retries and the folder work as in production.
 */
import { GuardedHttpError } from "@stint/http-guard/GuardedHttpError"
import { NotResolved } from "@stint/http-guard/Resolver"
import { GuardedHttpTest } from "@stint/http-guard/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { readFile } from "node:fs/promises"
import type { Downloads, Settings } from "../Downloads.ts"
import { layerNoDeps } from "../Downloads.ts"

/** The content of a URL: bytes, or the path of a file. */
export type Content = Uint8Array | string

/** A response. */
export interface Answer {
  /** Default: 200. */
  readonly status?: number
  /** Names in lower case: `content-type`, `content-disposition`, `retry-after`. Default: none. */
  readonly headers?: { readonly [name: string]: string }
  /** Default: empty. */
  readonly content?: Content
}

const isAnswer = (value: Content | Answer): value is Answer => typeof value !== "string" && !(value instanceof Uint8Array)

/**
 * Downloads from these URLs. Any other URL fails at once, with a message that lists the known ones.
 *
 * @example
 * ```ts
 * DownloadsTest.layer({ "https://example.com/photo.png": photo, "https://example.com/gone": { status: 404 } })
 * ```
 */
export const layer = (
  table: { readonly [url: string]: Content | Answer },
  settings: Settings = {}
): Layer.Layer<Downloads> => {
  const known = new Map(Object.entries(table).map(([url, value]) => [new URL(url).href, value]))
  return layerNoDeps(settings).pipe(Layer.provide(GuardedHttpTest.layer(
    Effect.fnUntraced(function*(url: URL) {
      const value = known.get(url.href)
      if (value === undefined) {
        const detail = `DownloadsTest.layer does not know ${url.href}; it knows ${[...known.keys()].join(", ") || "nothing"}`
        return yield* new GuardedHttpError({
          url: url.href,
          reason: new NotResolved({ host: url.hostname, detail, temporary: false })
        })
      }
      const { content = new Uint8Array(), headers = {}, status = 200 } = isAnswer(value) ? value : { content: value }
      const body = typeof content === "string" ? yield* Effect.promise(() => readFile(content)) : content
      return { status, headers, body }
    })
  )))
}
