/**
 * Which addresses a request that somebody else chose may go to (docs/spec/downloads.md#address-guard; IANA IPv4 and IPv6 special-purpose registries).
 *
 * ```
 *   not an address, or with a zone ---------------------------> forbidden
 *   in `deny` ------------------------------------------------> forbidden
 *   in `allow`, or private and `allowPrivate` -----------------> allowed
 *   IPv4: in a special-purpose range -------------------------> forbidden     else allowed
 *   IPv6: NAT64 64:ff9b::/96, 6to4 2002::/16 -----------------> what holds for the IPv4 address inside
 *         in a special-purpose range, or outside of 2000::/3 -> forbidden     else allowed
 * ```
 *
 * It errs on the side of no: IPv6 space that IANA has not given out is forbidden, and so is an IPv4 address dressed up as
 * `::ffff:8.8.8.8`, whichever it is, because nobody who means well writes it so.
 */
import * as Result from "effect/Result"
import { isIn, parse, parseRange, v4 } from "./IpAddress.ts"
import type { InvalidRange, IpAddress, IpRange } from "./IpAddress.ts"

/** What an operator changes about the guard. Ranges are written as `10.0.0.0/8`, `fd00::/8` or `192.168.1.7`. */
export interface Rules {
  /**
   * Ranges that may be reached although they are special. Default: none. Every range that is listed can be read by whoever chooses
   * the URLs: list single hosts, not networks.
   */
  readonly allow?: ReadonlyArray<string>
  /**
   * Whether loopback, private, shared and unique local addresses may be reached; link-local ones, where clouds keep their metadata
   * and credentials, stay forbidden. Default: false. True is for tests and for networks where every service asks for a password.
   */
  readonly allowPrivate?: boolean
  /** Ranges that may never be reached, whatever else says so: your own public ones, for example. Default: none. */
  readonly deny?: ReadonlyArray<string>
}

/** Says of addresses whether they may be reached. */
export interface AddressGuard {
  /** Why the address may not be reached: the name of its range, `loopback (127.0.0.0/8)`. Undefined when it may. */
  readonly reasonOf: (address: string) => string | undefined
  /** Whether the address may not be reached. Anything that is no address is forbidden. */
  readonly isForbidden: (address: string) => boolean
}

interface Special {
  readonly name: string
  readonly range: IpRange
  /** `allowPrivate` opens it. */
  readonly isPrivate: boolean
}

const special = (cidr: string, name: string, isPrivate = false): Special => ({
  name: `${name} (${cidr})`,
  range: Result.getOrThrow(parseRange(cidr)),
  isPrivate
})

/** The first match names the range, so the narrower ones come first. */
const SPECIAL: ReadonlyArray<Special> = [
  special("0.0.0.0/8", "this network"),
  special("10.0.0.0/8", "private", true),
  special("100.64.0.0/10", "carrier-grade NAT", true),
  special("127.0.0.0/8", "loopback", true),
  special("168.63.129.16", "a cloud's own services"),
  special("169.254.169.254", "instance metadata, link-local"),
  special("169.254.0.0/16", "link-local"),
  special("172.16.0.0/12", "private", true),
  special("192.0.0.0/24", "protocol assignments"),
  special("192.0.2.0/24", "documentation, TEST-NET-1"),
  special("192.88.99.0/24", "6to4 relays"),
  special("192.168.0.0/16", "private", true),
  special("198.18.0.0/15", "benchmarking"),
  special("198.51.100.0/24", "documentation, TEST-NET-2"),
  special("203.0.113.0/24", "documentation, TEST-NET-3"),
  special("224.0.0.0/4", "multicast"),
  special("255.255.255.255", "broadcast"),
  special("240.0.0.0/4", "reserved"),

  special("::", "unspecified"),
  special("::1", "loopback", true),
  special("::ffff:0:0/96", "IPv4-mapped"),
  special("::ffff:0:0:0/96", "IPv4-translated"),
  special("::/96", "IPv4-compatible"),
  special("64:ff9b:1::/48", "local NAT64"),
  special("100::/64", "discard-only"),
  special("2001::/32", "Teredo"),
  special("2001:2::/48", "benchmarking"),
  special("2001:10::/28", "ORCHID"),
  special("2001:20::/28", "ORCHIDv2"),
  special("2001::/23", "protocol assignments"),
  special("2001:db8::/32", "documentation"),
  special("3fff::/20", "documentation"),
  special("5f00::/16", "segment routing"),
  special("fc00::/7", "unique local", true),
  special("fe80::/10", "link-local"),
  special("fec0::/10", "site-local"),
  special("ff00::/8", "multicast")
]

/** Where an IPv6 address carries an IPv4 one: how many bits stand behind it. */
const EMBEDDED = [
  { ...special("64:ff9b::/96", "NAT64"), behind: 0n },
  { ...special("2002::/16", "6to4"), behind: 80n }
]

/** What IANA gives out as public IPv6 addresses. */
const GLOBAL_UNICAST = special("2000::/3", "global unicast").range

/** A guard with these rules. Fails when one of the ranges cannot be read. */
export const make = (rules: Rules = {}): Result.Result<AddressGuard, InvalidRange> =>
  Result.gen(function*() {
    const allow: Array<IpRange> = []
    for (const range of rules.allow ?? []) allow.push(yield* parseRange(range))
    const deny: Array<IpRange> = []
    for (const range of rules.deny ?? []) deny.push(yield* parseRange(range))
    const allowPrivate = rules.allowPrivate === true

    const reasonForAddress = (address: IpAddress): string | undefined => {
      if (deny.some((range) => isIn(address, range))) return "denied by this machine's settings"
      if (allow.some((range) => isIn(address, range))) return undefined
      const embedded = EMBEDDED.find(({ range }) => isIn(address, range))
      if (embedded !== undefined) {
        const inside = reasonForAddress(v4(address.value >> embedded.behind & 0xffff_ffffn))
        return inside === undefined ? undefined : `${inside}, inside of ${embedded.name}`
      }
      const found = SPECIAL.find(({ range }) => isIn(address, range))
      if (found !== undefined) return allowPrivate && found.isPrivate ? undefined : found.name
      return address.family === 4 || isIn(address, GLOBAL_UNICAST) ? undefined : "reserved (outside of 2000::/3)"
    }

    const reasonOf = (text: string): string | undefined => {
      const address = parse(text)
      if (address === undefined) return "not an address"
      return address.zone === undefined ? reasonForAddress(address) : "bound to a zone of this machine"
    }
    return { reasonOf, isForbidden: (address) => reasonOf(address) !== undefined }
  })
