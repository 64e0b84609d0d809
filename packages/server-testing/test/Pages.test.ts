import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { createHash } from "node:crypto"
import { layer as layerServer, ServerTest } from "../src/ServerTest.ts"

/** The directives of a Content-Security-Policy. */
const directivesOf = (policy: string | null): Record<string, string> =>
  Object.fromEntries((policy ?? "").split("; ").map((directive) => directive.split(/ (.*)/s).slice(0, 2)))

const hashOf = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`

/** The contents of all elements of this name, as a browser delimits them. */
const contentsOf = (html: string, element: string): ReadonlyArray<string> =>
  Array.from(html.matchAll(new RegExp(`<${element}[^>]*>(.*?)</${element}`, "gis")), ([, content = ""]) => content)

layer(layerServer())("the pages", (it) => {
  it.effect("/docs contains the API, requires no key, and allows only its own two scripts and requests to this server", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const answer = yield* server.call("/docs", { authorization: null })
      expect(answer.status).toBe(200)
      expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8")
      expect(answer.headers.get("x-content-type-options")).toBe("nosniff")
      for (const operation of ["/v2/{endpoint}/runsync", "/api/v1/keys"]) expect(answer.text).toContain(JSON.stringify(operation))
      const scripts = contentsOf(answer.text, "script")
      expect(scripts).toHaveLength(2)
      expect(answer.text).not.toMatch(/<(?:script|link|iframe|img)[^>]* (?:src|href)=/)
      const policy = directivesOf(answer.headers.get("content-security-policy"))
      expect(policy).toMatchObject({
        "default-src": "'none'",
        "script-src": scripts.map(hashOf).join(" "),
        "connect-src": "'self'",
        "frame-ancestors": "'none'"
      })
      for (const sources of Object.values(policy)) expect(sources).not.toMatch(/https?:|\*|unsafe-eval/)
      for (const setting of ["\"withDefaultFonts\":false", "\"telemetry\":false", "\"hideClientButton\":true"]) {
        expect(scripts[1]).toContain(setting)
      }
      expect(scripts[1]).not.toContain("proxyUrl")
    }))

  it.effect("/docs is compressed for clients that accept gzip, and has the same text", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const page = (encoding: string) => server.call("/docs", { authorization: null, headers: { "accept-encoding": encoding } })
      const plain = yield* page("identity")
      for (const [encoding, expected] of [["br, gzip", "gzip"], ["br, gzip;q=0", null], ["identity", null]] as const) {
        const answer = yield* page(encoding)
        expect(answer.headers.get("content-encoding"), encoding).toBe(expected)
        expect(answer.headers.get("vary")).toBe("accept-encoding")
        expect(answer.text === plain.text, encoding).toBe(true)
      }
    }))

  it.effect("/ tells browsers in HTML, and all other programs in JSON, what the server is and where to go", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const page = yield* server.call("/", { authorization: null, headers: { accept: "text/html,*/*;q=0.8" } })
      expect(page).toMatchObject({ status: 200 })
      expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8")
      expect(page.headers.get("vary")).toBe("accept")
      expect(page.text).toContain("Stint runs typed serverless jobs on your own machines.")
      expect(page.text).toContain(`${server.baseUrl}/v2/ENDPOINT/runsync`)
      expect(page.text).not.toMatch(/<script|<img|<iframe|@import|url\(/)
      const [style = ""] = contentsOf(page.text, "style")
      expect(page.headers.get("content-security-policy")).toContain(`style-src ${hashOf(style)};`)
      for (const accept of ["*/*", "application/json", ""]) {
        const answer = yield* server.call("/", { authorization: null, headers: { accept } })
        expect(answer.headers.get("content-type")).toBe("application/json")
        expect(answer.json).toMatchObject({ name: "stint", openapi: `${server.baseUrl}/openapi.json` })
      }
      for (const [, path = ""] of page.text.matchAll(/<a href="([^"]+)"/g)) {
        expect((yield* server.call(path, { authorization: null })).status, path).toBe(200)
      }
    }))
})
