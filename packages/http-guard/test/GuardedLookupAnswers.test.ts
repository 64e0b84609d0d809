/**
 * What a guarded lookup makes of the answer of a name server. The test chooses the answer, so it does not depend on the machine's network.
 */
import * as Result from "effect/Result"
import type { LookupAddress } from "node:dns"
import { describe, expect, it, vi } from "vitest"
import * as AddressGuard from "../src/AddressGuard.ts"
import * as GuardedLookup from "../src/GuardedLookup.ts"

const ANSWERS: { readonly [host: string]: ReadonlyArray<string> } = {
  "two.example": ["2606:4700::1", "8.8.8.8"],
  "mixed.example": ["8.8.8.8", "10.0.0.5"],
  "empty.example": []
}

type Resolve = (host: string, options: unknown, callback: (error: null, addresses: Array<LookupAddress>) => void) => void

const resolve = vi.hoisted(() => vi.fn<Resolve>())
vi.mock("node:dns", () => ({ lookup: resolve }))
resolve.mockImplementation((host, _, callback) =>
  callback(null, ANSWERS[host]!.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })))
)

const guard = GuardedLookup.make(Result.getOrThrow(AddressGuard.make({})))

/** The values that the caller receives. */
const received = (host: string, options: { readonly all?: boolean; readonly family?: number }) =>
  new Promise<ReadonlyArray<unknown>>((done) => guard.lookup(host, options, (...values) => done(values)))

describe("a guarded lookup", () => {
  it("returns all addresses to a caller that asks for all", async () => {
    expect(await received("two.example", { all: true })).toEqual([null, [
      { address: "2606:4700::1", family: 6 },
      { address: "8.8.8.8", family: 4 }
    ]])
  })

  it.each([{}, { all: false }])("returns the first address and its family to a caller that asks for one: %j", async (options) => {
    expect(await received("two.example", options)).toEqual([null, "2606:4700::1", 6])
  })

  it("returns no address if the answer has none", async () => {
    expect(await received("empty.example", { all: true })).toEqual([null, []])
    expect(await received("empty.example", {})).toEqual([null, "", 0])
  })

  it.each([true, false])(
    "fails if one address of several is forbidden, even if the caller asks for one (all: %s)",
    async (all) => {
      const [error, ...values] = await received("mixed.example", { all })
      expect(error).toBeInstanceOf(GuardedLookup.ForbiddenAddress)
      expect(error).toMatchObject({
        message: expect.stringMatching(/^mixed\.example is 10\.0\.0\.5, which must not be reached: /)
      })
      expect(values).toEqual(["", 0])
    }
  )

  it("asks for all addresses with the caller's other options", async () => {
    await received("two.example", { family: 4, all: false })
    expect(resolve).toHaveBeenLastCalledWith("two.example", { family: 4, all: true }, expect.any(Function))
  })
})
