import * as Result from "effect/Result"
import type { LookupAddress } from "node:dns"
import { describe, expect, it } from "vitest"
import * as AddressGuard from "../src/AddressGuard.ts"
import * as GuardedLookup from "../src/GuardedLookup.ts"

const make = (rules: AddressGuard.Rules = {}) => GuardedLookup.make(Result.getOrThrow(AddressGuard.make(rules)))

const lookup = (guard: GuardedLookup.GuardedLookup, host: string, all: boolean) =>
  new Promise<{ readonly error: NodeJS.ErrnoException | null; readonly found: string | Array<LookupAddress> }>((resolve) =>
    guard.lookup(host, { all }, (error, found) => resolve({ error, found }))
  )

describe("a guarded lookup", () => {
  it.each([true, false])("fails for a name with a forbidden address (all: %s)", async (all) => {
    const { error } = await lookup(make(), "localhost", all)
    expect(error).toMatchObject({ code: GuardedLookup.FORBIDDEN_ADDRESS })
    expect(error?.message).toMatch(/^localhost is .*, which must not be reached: loopback/)
  })

  it("returns the allowed addresses of a name, in the form that the caller asks for", async () => {
    const guard = make({ allow: ["127.0.0.1", "::1"] })
    const all = await lookup(guard, "localhost", true)
    expect(all.error).toBeNull()
    expect(all.found).toEqual(expect.arrayContaining([expect.objectContaining({ family: expect.any(Number) })]))
    const one = await lookup(guard, "localhost", false)
    expect(["127.0.0.1", "::1"]).toContain(one.found)
  })

  it("passes on the error of a name that does not exist", async () => {
    const { error } = await lookup(make(), "no-such-host.invalid", true)
    expect(error?.code).toMatch(/^(ENOTFOUND|EAI_AGAIN)$/)
  })
})

describe("the host of a URL", () => {
  it.each([
    "http://127.0.0.1:9000",
    "http://[::1]/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://169.254.169.254/latest",
    "http://localhost",
    "http://a.localhost."
  ])(
    "%s is forbidden without being resolved",
    (url) => {
      expect(make().reasonOf(new URL(url))).toContain("must not be reached")
    }
  )

  it("is left to the lookup when it is a name, and allowed when it is a public address", () => {
    expect(make().reasonOf(new URL("https://s3.eu-west-1.amazonaws.com"))).toBeUndefined()
    expect(make().reasonOf(new URL("https://8.8.8.8"))).toBeUndefined()
    expect(make({ allow: ["127.0.0.1"] }).reasonOf(new URL("http://localhost:9000"))).toBeUndefined()
  })
})
