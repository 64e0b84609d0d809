/**
 * `/docs`: the API reference, in which a reader can also send requests. Effect's `HttpApiScalar` renders the same definition as
 * `/openapi.json`, with the Scalar script that the installed `effect` package contains.
 *
 * The page works on machines without network access, and keeps keys on them: the Content-Security-Policy allows the page's own two scripts,
 * by their hashes, and requests to this server only. So the page's external fonts are turned off, as are Scalar's proxy and services, which
 * the page would otherwise offer.
 */
import { Api } from "@stint/contract/Api"
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiScalar } from "effect/http-api"
import { createHash } from "node:crypto"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import { DOCS_PATH } from "./Paths.ts"

/** Settings of Scalar that `ScalarConfig` does not contain are passed to Scalar unchanged. */
const settings = {
  // Without this setting, Scalar loads its fonts from fonts.scalar.com.
  withDefaultFonts: false,
  // Scalar's hosted services: a button that opens the document at client.scalar.com, and a toolbar that shares it.
  hideClientButton: true,
  showDeveloperTools: "never",
  telemetry: false,
  // The page forgets an entered key when it closes.
  persistAuth: false,
  // The platform serves the document as JSON, at /openapi.json.
  documentDownloadType: "none",
  favicon: "data:,",
  hideModels: true,
  authentication: { preferredSecurityScheme: "key" },
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" }
} as const satisfies HttpApiScalar.ScalarConfig & Record<string, unknown>

const hashOf = (script: string): string => `'sha256-${createHash("sha256").update(script).digest("base64")}'`

/**
 * Allows the scripts that are in the page, and nothing from other hosts. Scalar creates its styles at run time, so they have no stable
 * hashes; a style cannot send data anywhere, because images and fonts come from this server or from the page itself.
 */
const policyOf = (html: string): string =>
  [
    "default-src 'none'",
    `script-src ${Array.from(html.matchAll(/<script>(.*?)<\/script>/gs), ([, script = ""]) => hashOf(script)).join(" ")}`,
    "style-src 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'"
  ].join("; ")

const compress = promisify(gzip)

/** The page as HttpApiScalar's route returns it. */
const rendered = Effect.scoped(Effect.gen(function*() {
  const answer = yield* HttpRouter.toHttpEffect(HttpApiScalar.layer(Api, { path: DOCS_PATH, scalar: settings }))
  const request = HttpServerRequest.fromWeb(new Request(`http://localhost${DOCS_PATH}`))
  const response = yield* Effect.provideService(answer, HttpServerRequest.HttpServerRequest, request)
  return yield* Effect.promise(() => HttpServerResponse.toWeb(response).text())
}))

/** The page, plain and compressed to a third of its three megabytes. */
const page = Effect.gen(function*() {
  const html = yield* rendered
  const headers = {
    "cache-control": "no-cache",
    "content-security-policy": policyOf(html),
    "referrer-policy": "no-referrer",
    vary: "accept-encoding"
  }
  const contentType = "text/html; charset=utf-8"
  const compressed = yield* Effect.promise(() => compress(html))
  return {
    plain: HttpServerResponse.text(html, { contentType, headers }),
    compressed: HttpServerResponse.uint8Array(compressed, { contentType, headers: { ...headers, "content-encoding": "gzip" } })
  }
}).pipe(Effect.orDie)

/** The route of the page. The page is rendered on the first request, because loading Scalar would delay every start. */
export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const pages = yield* Effect.cached(page)
  yield* router.add("GET", DOCS_PATH, (request) =>
    Effect.map(
      pages,
      ({ compressed, plain }) => /\bgzip\b(?!;q=0)/.test(request.headers["accept-encoding"] ?? "") ? compressed : plain
    ))
}))
