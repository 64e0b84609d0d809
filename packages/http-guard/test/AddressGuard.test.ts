import { describe, expect, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as fc from "fast-check"
import { BlockList } from "node:net"
import { AddressGuard } from "../src/index.ts"

const guard = (rules: AddressGuard.Rules = {}) => Result.getOrThrow(AddressGuard.make(rules))

/** The IANA special-purpose registries, checked by Node's own code: an independent reference. */
const second = new BlockList()
for (
  const [base, bits] of [
    ["0.0.0.0", 8],
    ["10.0.0.0", 8],
    ["100.64.0.0", 10],
    ["127.0.0.0", 8],
    ["168.63.129.16", 32],
    ["169.254.0.0", 16],
    ["172.16.0.0", 12],
    ["192.0.0.0", 24],
    ["192.0.2.0", 24],
    ["192.88.99.0", 24],
    ["192.168.0.0", 16],
    ["198.18.0.0", 15],
    ["198.51.100.0", 24],
    ["203.0.113.0", 24],
    ["224.0.0.0", 3]
  ] as const
) second.addSubnet(base, bits, "ipv4")
const global = new BlockList()
global.addSubnet("2000::", 3, "ipv6")
const special = new BlockList()
for (const [base, bits] of [["2001::", 23], ["2001:db8::", 32], ["3fff::", 20]] as const) special.addSubnet(base, bits, "ipv6")

const dotted = (value: number) => [24, 16, 8, 0].map((shift) => value >>> shift & 255).join(".")
const v4 = fc.integer({ min: 0, max: 0xffff_ffff })
/** Addresses near the bounds of ranges, where an error of one bit would be visible. */
const edges = fc.tuple(
  fc.constantFrom(
    0x01000000,
    0x0a000000,
    0x0b000000,
    0x64400000,
    0x64800000,
    0x7f000000,
    0x80000000,
    0xa83f8110,
    0xa9fe0000,
    0xa9ff0000,
    0xac100000,
    0xac200000,
    0xc0000000,
    0xc0000100,
    0xc0000200,
    0xc0000300,
    0xc0586300,
    0xc0586400,
    0xc0a80000,
    0xc0a90000,
    0xc6120000,
    0xc6140000,
    0xc6336400,
    0xc6336500,
    0xcb007100,
    0xcb007200,
    0xe0000000,
    0xf0000000
  ),
  fc.integer({ min: -2, max: 2 })
).map(([base, by]) => base + by)
const group = fc.integer({ min: 0, max: 0xffff }).map((value) => value.toString(16))

describe("AddressGuard", () => {
  it("forbids exactly the special-purpose IPv4 addresses, as an independent reference does", () => {
    const { isForbidden } = guard()
    fc.assert(
      fc.property(fc.oneof(v4, edges).map(dotted), (address) => isForbidden(address) === second.check(address, "ipv4")),
      { numRuns: 5000 }
    )
  })

  it("allows every other public IPv6 address, and no address outside 2000::/3", () => {
    const { isForbidden } = guard()
    fc.assert(
      fc.property(
        fc.oneof(
          fc.array(group, { minLength: 8, maxLength: 8 }),
          fc.array(group, { minLength: 7, maxLength: 7 }).map((rest) => ["2a00", ...rest])
        ),
        (groups) => {
          const address = groups.join(":")
          fc.pre(!["64", "2002"].includes(groups[0]!))
          return isForbidden(address) === (!global.check(address, "ipv6") || special.check(address, "ipv6"))
        }
      ),
      { numRuns: 3000 }
    )
  })

  it("checks NAT64 and 6to4 addresses by the IPv4 address inside", () => {
    const { isForbidden } = guard()
    fc.assert(
      fc.property(fc.oneof(v4, edges), group, (value, rest) => {
        const forbidden = second.check(dotted(value), "ipv4")
        const [high, low] = [value >>> 16, value & 0xffff].map((half) => half.toString(16))
        return isForbidden(`64:ff9b::${dotted(value)}`) === forbidden &&
          isForbidden(`64:ff9b::${high}:${low}`) === forbidden &&
          isForbidden(`2002:${high}:${low}::${rest}`) === forbidden
      })
    )
  })

  it("forbids every IPv4 address that is mapped, translated or compatible, and every Teredo address", () => {
    const { isForbidden } = guard()
    fc.assert(
      fc.property(
        v4.map(dotted),
        (address) => [`::ffff:${address}`, `::ffff:0:${address}`, `::${address}`, `2001::${address}`].every(isForbidden)
      )
    )
  })

  it.each([
    ["127.0.0.1", "loopback (127.0.0.0/8)"],
    ["10.1.2.3", "private (10.0.0.0/8)"],
    ["100.64.1.1", "carrier-grade NAT (100.64.0.0/10)"],
    ["169.254.169.254", "instance metadata, link-local (169.254.169.254)"],
    ["255.255.255.255", "broadcast (255.255.255.255)"],
    ["::1", "loopback (::1)"],
    ["::ffff:127.0.0.1", "IPv4-mapped (::ffff:0:0/96)"],
    ["64:ff9b::10.0.0.1", "private (10.0.0.0/8), inside NAT64 (64:ff9b::/96)"],
    ["2002:7f00:1::", "loopback (127.0.0.0/8), inside 6to4 (2002::/16)"],
    ["fd12::1", "unique local (fc00::/7)"],
    ["4000::", "reserved (outside of 2000::/3)"],
    ["fe80::1%eth0", "bound to a zone of this machine"],
    ["2606:4700::1111%1", "bound to a zone of this machine"],
    ["8.8.8.8", undefined],
    ["2606:4700:4700::1111", undefined],
    ["64:ff9b::8.8.8.8", undefined]
  ])("names the range of %s", (address, reason) => {
    expect(guard().reasonOf(address)).toBe(reason)
  })

  it.each(["", "localhost", "127.1", "0177.0.0.1", "2130706433", "0x7f.0.0.1", "[::1]", "8.8.8.8 ", "8.8.8.8/32", "1.2.3"])(
    "forbids %j, which is not an address",
    (address) => expect(guard().reasonOf(address)).toBe("not an address")
  )

  it("allows what `allow` lists, and nothing else", () => {
    const { isForbidden } = guard({ allow: ["10.1.0.0/16", "127.0.0.1", "fd00:1::/32"] })
    expect(["10.1.2.3", "127.0.0.1", "fd00:1::5", "64:ff9b::10.1.0.1"].filter(isForbidden)).toEqual([])
    const others = ["10.2.0.1", "127.0.0.2", "fd00:2::5", "::1", "::ffff:10.1.2.3", "169.254.169.254"]
    expect(others.filter((address) => !isForbidden(address))).toEqual([])
  })

  it("allows private networks but never metadata with `allowPrivate`", () => {
    const { isForbidden } = guard({ allowPrivate: true })
    expect(["10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "127.0.0.1", "::1", "fd00::1"].filter(isForbidden)).toEqual([])
    const others = ["169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "::ffff:10.0.0.1", "168.63.129.16"]
    expect(others.filter((address) => !isForbidden(address))).toEqual([])
  })

  it("accepts spaces around a range", () => {
    const { isForbidden } = guard({ allow: [" 10.1.0.0/16 ", "\t127.0.0.1"], deny: [" 8.8.8.8"] })
    expect(["10.1.2.3", "127.0.0.1", "8.8.8.8"].map(isForbidden)).toEqual([false, false, true])
  })

  it.effect("reads the ranges of the first variable that has any", () =>
    Effect.gen(function*() {
      const read = (env: Readonly<Record<string, string>>) =>
        Effect.provideService(
          AddressGuard.rangesFromConfig(["FIRST", "SECOND"]),
          ConfigProvider.ConfigProvider,
          ConfigProvider.fromEnv({ env })
        )
      const ranges = ["10.0.0.0/8", "127.0.0.1"]
      expect(yield* read({ FIRST: "10.0.0.0/8, 127.0.0.1 ", SECOND: "192.168.0.0/16" })).toEqual({ variable: "FIRST", ranges })
      expect(yield* read({ FIRST: " , ", SECOND: "10.0.0.0/8,,127.0.0.1" })).toEqual({ variable: "SECOND", ranges })
      expect(yield* read({ SECOND: "10.0.0.0/8,127.0.0.1" })).toEqual({ variable: "SECOND", ranges })
      expect(yield* read({})).toEqual({ variable: "SECOND", ranges: [] })
    }))

  it("applies `deny` before `allow`, and to public addresses", () => {
    const { isForbidden } = guard({ allow: ["10.0.0.0/8"], deny: ["10.9.0.0/16", "8.8.8.0/24"] })
    expect(isForbidden("10.8.0.1")).toBe(false)
    expect(isForbidden("10.9.0.1")).toBe(true)
    expect(isForbidden("8.8.8.8")).toBe(true)
    expect(isForbidden("64:ff9b::8.8.8.8")).toBe(true)
  })

  it.each([
    "10.0.0.0/33",
    "10.0.0.0/",
    "10.0.0.0/8/8",
    "10.0.0.0/-1",
    "10.1.2.3/8",
    "10/8",
    "fd00::/129",
    "host",
    "",
    "fe80::1%1/128"
  ])(
    "rejects the range %j and names it",
    (range) => {
      const made = AddressGuard.make({ allow: [range] })
      expect(Result.isFailure(made) && made.failure.message).toContain(`${JSON.stringify(range)} is not a range of addresses`)
    }
  )
})
