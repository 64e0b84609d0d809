/**
 * Determines which addresses a request to an untrusted URL may connect to (docs/spec/downloads.md#address-guard; IANA IPv4 and IPv6
 * special-purpose registries).
 *
 * ```
 *   not an address, or with a zone ----------------------------> forbidden
 *   in `deny` -------------------------------------------------> forbidden
 *   in `allow`, or private and `allowPrivate` -----------------> allowed
 *   IPv4: in a special-purpose range --------------------------> forbidden     else allowed
 *   IPv6: NAT64 64:ff9b::/96, 6to4 2002::/16 ------------------> as the IPv4 address inside
 *         in a special-purpose range, or outside 2000::/3 -----> forbidden     else allowed
 * ```
 *
 * When in doubt, an address is forbidden. This includes IPv6 space that IANA has not assigned, and every IPv4-mapped address
 * (`::ffff:8.8.8.8`), because legitimate URLs do not use that form.
 *
 * `effect/net` parses addresses and accepts only the canonical spellings (`127.0.0.1`, `fe80::1`). Other spellings (`0177.1`,
 * `2130706433`, full-width digits) occur only in URLs, and the URL parser has already made them canonical before an address gets here.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as IpNetwork from "effect/net/IpNetwork"
import * as NetAddress from "effect/net/NetAddress"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

/** A configured range cannot be parsed. */
export class InvalidRange extends Schema.TaggedError<InvalidRange>()("InvalidRange", {
  range: Schema.String,
  detail: Schema.String
}) {
  override get message(): string {
    return `${
      JSON.stringify(this.range)
    } is not a range of addresses: ${this.detail}. Write it as 10.0.0.0/8, fd00::/8 or 192.168.1.7.`
  }
}

/** The settings that an operator can change. Ranges are written as `10.0.0.0/8`, `fd00::/8` or `192.168.1.7`. */
export interface Rules {
  /**
   * Special-purpose ranges that requests may connect to. Default: none. Anyone who can choose a URL can read from every address in these
   * ranges, so list single hosts and not networks.
   */
  readonly allow?: ReadonlyArray<string>
  /**
   * Whether requests may connect to loopback, private, shared and unique local addresses. Link-local addresses, where clouds serve
   * metadata and credentials, stay forbidden. Default: false. True is for tests and for networks where every service requires a password.
   */
  readonly allowPrivate?: boolean
  /** Ranges that requests never connect to, regardless of the other rules; for example, your own public ranges. Default: none. */
  readonly deny?: ReadonlyArray<string>
}

/** Checks addresses against the rules. */
export interface AddressGuard {
  /** Why the address is forbidden: the name of its range, `loopback (127.0.0.0/8)`. Undefined when it is allowed. */
  readonly reasonOf: (address: string) => string | undefined
  /** Whether the address is forbidden. A string that is not an address is forbidden. */
  readonly isForbidden: (address: string) => boolean
}

/**
 * Parses `10.0.0.0/8`, `fd00::/8`, or a single address. Rejects a range with host bits set, because the author of `10.1.2.3/8` may have
 * meant one address but would allow sixteen million.
 */
const parseRange = (range: string): Result.Result<IpNetwork.IpNetwork, InvalidRange> => {
  const text = range.trim()
  const network = text.includes("/")
    ? IpNetwork.fromString(text)
    : Result.flatMap(NetAddress.ipFromString(text), (address) => IpNetwork.make(address, NetAddress.width(address)))
  return Result.mapError(network, ({ message }) => new InvalidRange({ range, detail: message }))
}

interface Special {
  readonly name: string
  readonly range: IpNetwork.IpNetwork
  /** Whether `allowPrivate` allows it. */
  readonly isPrivate: boolean
}

const special = (cidr: string, name: string, isPrivate = false): Special => ({
  name: `${name} (${cidr})`,
  range: Result.getOrThrow(parseRange(cidr)),
  isPrivate
})

/** The first match names the range, so narrower ranges come first. */
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

/** The ranges of IPv6 addresses that contain an IPv4 address, and the position of its first octet. */
const EMBEDDED = [
  { ...special("64:ff9b::/96", "NAT64"), firstOctet: 12 },
  { ...special("2002::/16", "6to4"), firstOctet: 2 }
]

/** The range from which IANA assigns public IPv6 addresses. */
const GLOBAL_UNICAST = special("2000::/3", "global unicast").range

/** Makes a guard with these rules. Fails when a range cannot be parsed. */
export const make = (rules: Rules = {}): Result.Result<AddressGuard, InvalidRange> =>
  Result.gen(function*() {
    const allow: Array<IpNetwork.IpNetwork> = []
    for (const range of rules.allow ?? []) allow.push(yield* parseRange(range))
    const deny: Array<IpNetwork.IpNetwork> = []
    for (const range of rules.deny ?? []) deny.push(yield* parseRange(range))
    const allowPrivate = rules.allowPrivate === true

    const reasonForAddress = (address: NetAddress.IpAddress): string | undefined => {
      const isIn = IpNetwork.contains(address)
      if (deny.some(isIn)) return "denied by this machine's settings"
      if (allow.some(isIn)) return undefined
      if (NetAddress.isIpv6Address(address)) {
        const embedded = EMBEDDED.find(({ range }) => isIn(range))
        if (embedded !== undefined) {
          const octets = NetAddress.ipv6ToOctets(address).slice(embedded.firstOctet, embedded.firstOctet + 4)
          const inside = reasonForAddress(NetAddress.ipv4FromBytesUnsafe(Uint8Array.from(octets)))
          return inside === undefined ? undefined : `${inside}, inside ${embedded.name}`
        }
      }
      const found = SPECIAL.find(({ range }) => isIn(range))
      if (found !== undefined) return allowPrivate && found.isPrivate ? undefined : found.name
      return NetAddress.isIpv4Address(address) || isIn(GLOBAL_UNICAST) ? undefined : "reserved (outside of 2000::/3)"
    }

    const reasonOf = (text: string): string | undefined =>
      Result.match(NetAddress.ipFromString(text), {
        onSuccess: reasonForAddress,
        onFailure: () =>
          Result.isSuccess(NetAddress.scopedIpv6LiteralFromString(text)) ? "bound to a zone of this machine" : "not an address"
      })
    return { reasonOf, isForbidden: (address) => reasonOf(address) !== undefined }
  })

/** The first of these variables that contains ranges, and its comma-separated ranges. If none does: the last variable, and no ranges. */
export const rangesFromConfig = Effect.fnUntraced(function*(variables: ReadonlyArray<string>) {
  let variable = ""
  let ranges: ReadonlyArray<string> = []
  for (variable of variables) {
    const text = Option.getOrElse(yield* Config.option(Config.String(variable)), () => "")
    ranges = text.split(",").map((one) => one.trim()).filter((one) => one !== "")
    if (ranges.length > 0) break
  }
  return { variable, ranges }
})
