/**
 * The request that follows a redirect: when there is one, and its URL, method, headers and body.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Redirect from "../src/Redirect.ts"

/** The headers that describe the body. */
const BODY_HEADERS = {
  "content-type": "application/json",
  "content-encoding": "gzip",
  "content-language": "en",
  "content-location": "/here"
}

/** The request before the redirect. */
const hop = (
  { from = "https://a.example/start", ...given }: Partial<Redirect.Hop> & { readonly from?: string } = {}
): Redirect.Hop => ({
  url: new URL(from),
  method: "GET",
  headers: {},
  body: undefined,
  ...given
})

/** The request after the redirect. */
const followed = (from: Redirect.Hop, status: number, location: string, allowDowngrade = false) =>
  Result.getOrThrow(Redirect.next(from, status, location, allowDowngrade))

/** Why the redirect is not followed. */
const refused = (from: Redirect.Hop, location: string | undefined) =>
  Result.getOrThrow(Result.flip(Redirect.next(from, 302, location, false))).detail

describe("the URL after a redirect", () => {
  it.each([
    ["/end?a=b", "https://a.example/end?a=b"],
    ["end", "https://a.example/end"],
    ["//b.example/end", "https://b.example/end"],
    ["https://b.example/end", "https://b.example/end"]
  ])("is resolved against the URL before it: %s", (location, url) => {
    expect(followed(hop(), 302, location).url.href).toBe(url)
  })

  it("is required", () => {
    expect(refused(hop(), undefined)).toBe("302 without a Location")
  })

  it.each([
    ["http://", "its Location is not a URL"],
    ["file:///etc/passwd", "file: is neither http: nor https:"],
    ["https://b.example:0/", "port 0 does not exist"],
    [`/${"a".repeat(8192)}`, "it has 8210 characters, and the limit is 8192"]
  ])("must be one that can be requested: %#", (location, detail) => {
    expect(refused(hop(), location)).toBe(detail)
  })

  it("does not lead from https to http, unless the caller allows it", () => {
    const detail = "it leads from https to http, where anyone on the network path can read and change it"
    expect(refused(hop(), "http://a.example/end")).toBe(detail)
    expect(refused(hop(), "http://b.example/end")).toBe(detail)
    expect(followed(hop(), 302, "http://b.example/end", true).url.href).toBe("http://b.example/end")
  })

  it.each([
    ["https://a.example/", "https://b.example/end"],
    ["http://a.example/", "https://b.example/end"],
    ["http://a.example/", "http://b.example/end"]
  ])("may lead from %s to %s, whether a downgrade is allowed or not", (from, location) => {
    for (const allowDowngrade of [false, true]) {
      expect(followed(hop({ from }), 302, location, allowDowngrade).url.href).toBe(location)
    }
  })
})

describe("the method after a redirect", () => {
  const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

  // The methods after the redirect, in the order of METHODS.
  it.each([
    [301, ["GET", "HEAD", "GET", "PUT", "PATCH", "DELETE"]],
    [302, ["GET", "HEAD", "GET", "PUT", "PATCH", "DELETE"]],
    [303, ["GET", "HEAD", "GET", "GET", "GET", "GET"]],
    [307, METHODS],
    [308, METHODS]
  ])("follows the rule of %i", (status, methods) => {
    expect(METHODS.map((method) => followed(hop({ method }), status, "/end").method)).toEqual(methods)
  })
})

describe("the body after a redirect", () => {
  const headers = { ...BODY_HEADERS, accept: "image/png", "x-own": "1" }

  it.each([[301, "POST"], [302, "POST"], [303, "POST"], [303, "PUT"]])(
    "is dropped with its headers after %i of a %s, and the other headers are kept",
    (status, method) => {
      const after = followed(hop({ method, headers, body: "{}" }), status, "/end")
      expect(after.body).toBeUndefined()
      expect(after.headers).toEqual({ accept: "image/png", "x-own": "1" })
    }
  )

  it.each([[301, "PUT"], [302, "PATCH"], [307, "POST"], [308, "PUT"]])(
    "is kept with its headers after %i of a %s",
    (status, method) => {
      const after = followed(hop({ method, headers, body: "{}" }), status, "/end")
      expect(after.body).toBe("{}")
      expect(after.headers).toEqual(headers)
    }
  )
})

describe("the headers after a redirect to another origin", () => {
  const headers = {
    ...BODY_HEADERS,
    accept: "image/png",
    "accept-encoding": "gzip",
    "accept-language": "en",
    authorization: "Bearer secret",
    cookie: "a=b",
    range: "bytes=0-9",
    "user-agent": "test",
    "x-api-key": "secret"
  }
  const harmless = {
    accept: "image/png",
    "accept-encoding": "gzip",
    "accept-language": "en",
    range: "bytes=0-9",
    "user-agent": "test"
  }

  it.each(["https://b.example/", "https://a.example:8443/", "https://sub.a.example/", "http://a.example/"])(
    "are only the harmless ones: %s",
    (location) => {
      const from = hop({ method: "POST", headers, body: "{}" })
      expect(followed(from, 307, location, true).headers).toEqual({ ...harmless, "content-type": "application/json" })
      expect(followed(from, 303, location, true).headers).toEqual(harmless)
    }
  )
})

describe("a caller's headers", () => {
  it("are in lower case, and those of the connection are dropped", () => {
    expect(Redirect.requestHeaders({ "X-Own": "1", Accept: "*/*", HOST: "inside.example", "Content-Length": "3", te: "x" }))
      .toEqual({ "x-own": "1", accept: "*/*" })
  })
})

it("follows 301, 302, 303, 307 and 308 only", () => {
  const statuses = Array.from({ length: 500 }, (_, index) => 100 + index)
  expect(statuses.filter(Redirect.isRedirect)).toEqual([301, 302, 303, 307, 308])
})
