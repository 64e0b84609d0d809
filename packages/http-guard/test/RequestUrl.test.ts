/**
 * URLs of requests: which can be requested, how they appear in messages, and the host, user and password that they contain.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as RequestUrl from "../src/RequestUrl.ts"

const parsed = (text: string | URL) => Result.getOrThrow(RequestUrl.parse(text)).href
const invalid = (text: string | URL) => Result.getOrThrow(Result.flip(RequestUrl.parse(text))).detail

/** A URL of this many characters. */
const ofLength = (length: number) => "http://a.example/".padEnd(length, "a")

describe("the URL of a request", () => {
  it.each([
    ["http://a.example", "http://a.example/"],
    ["HTTPS://A.example:443/B?c#d", "https://a.example/B?c#d"],
    ["http://a.example./", "http://a.example./"]
  ])("is read: %s", (text, href) => {
    expect(parsed(text)).toBe(href)
    expect(parsed(new URL(text))).toBe(href)
  })

  it("has at most 8192 characters, as a text and as a URL", () => {
    expect(parsed(ofLength(8192))).toHaveLength(8192)
    expect(parsed(new URL(ofLength(8192)))).toHaveLength(8192)
    const detail = "it has 8193 characters, and the limit is 8192"
    expect(invalid(ofLength(8193))).toBe(detail)
    expect(invalid(new URL(ofLength(8193)))).toBe(detail)
  })

  it.each([
    ["", "it is not a URL with a scheme and a host"],
    ["a.example/b", "it is not a URL with a scheme and a host"],
    ["ftp://a.example/", "ftp: is neither http: nor https:"],
    ["http://a.example:0/", "port 0 does not exist"],
    ["http://.a.example/", "its host has an empty label"],
    ["http://a..example/", "its host has an empty label"]
  ])("is refused with a reason: %j", (text, detail) => {
    expect(invalid(text)).toBe(detail)
  })
})

describe("a URL in a message", () => {
  it.each([
    ["https://a.example", "https://a.example/"],
    ["http://a.example:8080/b/c", "http://a.example:8080/b/c"],
    ["https://user:password@a.example/b", "https://a.example/b"],
    ["https://a.example/b?token=secret", "https://a.example/b?..."],
    ["https://a.example/b?token=secret#secret", "https://a.example/b?..."],
    ["https://a.example/b#secret", "https://a.example/b"],
    ["https://a.example/b?", "https://a.example/b"],
    ["data:text/plain,secret", "a data: URL"],
    ["file:///home/secret", "a file: URL"],
    ["ftp://user:password@a.example/secret", "a ftp: URL"]
  ])("%s is %s", (text, shown) => {
    expect(RequestUrl.redactedUrl(text)).toBe(shown)
    expect(RequestUrl.redactedUrl(new URL(text))).toBe(shown)
  })

  it("has no part of a text that is not a URL", () => {
    expect(RequestUrl.redactedUrl("token=secret")).toBe("a URL that cannot be read")
  })

  it("has at most 200 characters of the path", () => {
    const path = `/${"a".repeat(199)}`
    expect(RequestUrl.redactedUrl(`https://a.example${path}`)).toBe(`https://a.example${path}`)
    expect(RequestUrl.redactedUrl(`https://a.example${path}b`)).toBe(`https://a.example${path}...`)
    expect(RequestUrl.redactedUrl(`https://a.example${path}b?c`)).toBe(`https://a.example${path}...?...`)
  })
})

describe("the host of a URL", () => {
  it.each([
    ["http://A.example/", "a.example"],
    ["http://a.example./", "a.example"],
    ["http://[2001:DB8::1]:80/", "2001:db8::1"],
    ["http://127.1/", "127.0.0.1"]
  ])("%s is %s", (url, host) => {
    expect(RequestUrl.hostOf(new URL(url))).toBe(host)
  })

  it.each([
    ["localhost", true],
    ["a.localhost", true],
    ["notlocalhost", false],
    ["localhost.example", false]
  ])("%s means this machine: %s", (host, expected) => {
    expect(RequestUrl.isLocalhost(host)).toBe(expected)
  })
})

describe("the user and password of a URL", () => {
  it.each([
    ["user:password@", "user:password"],
    ["user@", "user:"],
    [":password@", ":password"],
    ["us%C3%A9r:p%40ss@", "usér:p@ss"],
    // These are not percent-encoded texts, so they are sent unchanged.
    ["100%:50%25@", "100%:50%"],
    ["user:%FF@", "user:%FF"]
  ])("%s is sent as %s", (given, sent) => {
    expect(RequestUrl.basicAuthorization(new URL(`http://${given}a.example/`)))
      .toBe(`Basic ${Buffer.from(sent).toString("base64")}`)
  })

  it("are not sent if the URL has none", () => {
    expect(RequestUrl.basicAuthorization(new URL("http://a.example/"))).toBeUndefined()
    expect(RequestUrl.basicAuthorization(new URL("http://@a.example/"))).toBeUndefined()
    expect(RequestUrl.basicAuthorization(new URL("http://:@a.example/"))).toBeUndefined()
  })
})
