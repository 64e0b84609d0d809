/**
 * The built files of the web console, which `apps/console` builds and the command line's package contains.
 *
 * ```
 *   /                       index.html, for browsers (pages/HomePage.ts)        revalidated on each visit
 *   /console/jobs/...       index.html: the console shows the page for the path
 *   /console/assets/NAME    a script or a style, whose name contains its hash   cached for a year
 * ```
 *
 * The Content-Security-Policy allows this server only, and no inline scripts or styles.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Layer from "effect/Layer"
import { readdir, readFile } from "node:fs/promises"
import { extname, join } from "node:path"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import { CONSOLE_PATH, HOME_PATH } from "../pages/Paths.ts"

/** The folder with the built files. Default: none, so that `/` shows the page without data (pages/HomePage.ts). */
export const ConsoleFolder: Context.Reference<string | undefined> = Context.Reference<string | undefined>(
  "@stint/server/ConsoleFolder",
  { defaultValue: () => undefined }
)

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  // Audio and video in outputs.
  "media-src data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'"
].join("; ")

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml"
}

const INDEX = "index.html"

const compress = promisify(gzip)

type Respond = (request: HttpServerRequest.HttpServerRequest) => HttpServerResponse.HttpServerResponse

const respondWith = async (folder: string, name: string): Promise<Respond> => {
  const content = await readFile(join(folder, name))
  const compressed = await compress(content, { level: 9 })
  const headers = {
    "cache-control": name === INDEX ? "no-cache" : "public, max-age=31536000, immutable",
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    vary: name === INDEX ? "accept, accept-encoding" : "accept-encoding"
  }
  const contentType = TYPES[extname(name)] ?? "application/octet-stream"
  const plain = HttpServerResponse.uint8Array(content, { contentType, headers })
  const zipped = HttpServerResponse.uint8Array(compressed, { contentType, headers: { ...headers, "content-encoding": "gzip" } })
  return (request) => /\bgzip\b(?!;q=0)/.test(request.headers["accept-encoding"] ?? "") ? zipped : plain
}

/** Reads every file of the folder. Undefined when the console is not built. */
const read = async (folder: string): Promise<ReadonlyMap<string, Respond> | undefined> => {
  try {
    const names = await readdir(folder, { recursive: true, withFileTypes: true })
    const files = names.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name).slice(folder.length + 1))
    if (!files.includes(INDEX)) return undefined
    return new Map(
      await Promise.all(files.map(async (name) => [name.replaceAll("\\", "/"), await respondWith(folder, name)] as const))
    )
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined
    throw error
  }
}

const make = Effect.map(ConsoleFolder, (folder) => {
  let files: ReadonlyMap<string, Respond> | undefined
  // Read on the first visit, so that it does not delay the platform's start. A console that is built later appears without a restart.
  const all = Effect.promise(async () => {
    if (folder !== undefined) files ??= await read(folder)
    return files
  })
  return {
    /** `/` for browsers: the console's page, or undefined when the console is not built. */
    index: Effect.map(all, (found) => found?.get(INDEX)),
    all
  }
})

/** The files. */
export class ConsoleFiles extends Context.Service<ConsoleFiles, Effect.Success<typeof make>>()("@stint/server/ConsoleFiles") {}

/** Reads the files on first use. */
export const layer: Layer.Layer<ConsoleFiles> = Layer.effect(ConsoleFiles, make)

const redirectHome = HttpServerResponse.empty({ status: 302, headers: { location: HOME_PATH } })

/** The routes of the files and pages, except `/`. */
export const layerRoutes = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const files = yield* ConsoleFiles
  yield* router.add("GET", `${CONSOLE_PATH}/*`, (request) =>
    Effect.map(files.all, (found) => {
      if (found === undefined) return redirectHome
      const path = request.url.split(/[?#]/, 1)[0] ?? ""
      const name = path.slice(1)
      const file = name.startsWith("console/assets/") ? found.get(name) : found.get(INDEX)
      return file === undefined ? HttpServerResponse.empty({ status: 404 }) : file(request)
    }))
}))
