/**
 * Addresses and ranges as numbers.
 *
 * Only the canonical spellings are read here (`127.0.0.1`, `fe80::1`). The many others (`0177.1`, `2130706433`, full-width digits)
 * exist in URLs alone, and the URL parser has made them canonical before an address gets here. What is not canonical is no address.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isIP } from "node:net"

/** An address of one family, as the number that its bits make. */
export interface IpAddress {
  readonly family: 4 | 6
  readonly value: bigint
  /** The zone of a link-local address: `eth0` in `fe80::1%eth0`. */
  readonly zone: string | undefined
}

/** All addresses that share the first `bits` bits. */
export interface IpRange {
  readonly family: 4 | 6
  readonly base: bigint
  readonly bits: number
}

const WIDTH = { 4: 32, 6: 128 } as const

const parseV4 = (text: string): bigint =>
  text.split(".").reduce((value, part) => value << 8n | BigInt(Number.parseInt(part, 10)), 0n)

/** `1:2::3` -> the groups before and after the gap. */
const groupsOf = (text: string): ReadonlyArray<bigint> =>
  text === "" ? [] : text.split(":").flatMap((group) => {
    if (!group.includes(".")) return [BigInt(`0x${group}`)]
    const v4 = parseV4(group)
    return [v4 >> 16n, v4 & 0xffffn]
  })

const parseV6 = (text: string): bigint => {
  const [before = "", after] = text.split("::", 2)
  const head = groupsOf(before)
  const tail = after === undefined ? [] : groupsOf(after)
  const gap = Array.from({ length: 8 - head.length - tail.length }, () => 0n)
  return [...head, ...gap, ...tail].reduce((value, group) => value << 16n | group, 0n)
}

/** Reads an address; undefined when the text is none. IPv6 may come with a zone, and without brackets only. */
export const parse = (text: string): IpAddress | undefined => {
  const family = isIP(text)
  if (family === 4) return { family, value: parseV4(text), zone: undefined }
  if (family !== 6) return undefined
  const [address = "", zone] = text.split("%", 2)
  return { family, value: parseV6(address), zone }
}

/** The IPv4 address that these 32 bits make. */
export const v4 = (value: bigint): IpAddress => ({ family: 4, value, zone: undefined })

/** Whether the address lies in the range. An IPv4-mapped IPv6 address is an IPv6 address. */
export const isIn = (address: IpAddress, range: IpRange): boolean => {
  if (address.family !== range.family) return false
  const shift = BigInt(WIDTH[range.family] - range.bits)
  return address.value >> shift === range.base >> shift
}

/** A range that somebody wrote and that is none. */
export class InvalidRange extends Schema.TaggedError<InvalidRange>()("InvalidRange", {
  range: Schema.String,
  detail: Schema.String
}) {
  override get message(): string {
    return `${
      JSON.stringify(this.range)
    } is no range of addresses: ${this.detail}. Write it as 10.0.0.0/8, fd00::/8 or 192.168.1.7.`
  }
}

/**
 * Reads `10.0.0.0/8`, `fd00::/8`, or a single address. Bits behind the prefix must be zero: who writes `10.1.2.3/8` may have meant
 * one address, and would open sixteen million.
 */
export const parseRange = (text: string): Result.Result<IpRange, InvalidRange> => {
  const fail = (detail: string) => Result.fail(new InvalidRange({ range: text, detail }))
  const [host = "", prefix, ...rest] = text.trim().split("/")
  const address = parse(host)
  if (address === undefined || rest.length > 0) return fail(`${JSON.stringify(host)} is no address`)
  if (address.zone !== undefined) return fail("a range has no zone")
  const width = WIDTH[address.family]
  if (prefix === undefined) return Result.succeed({ family: address.family, base: address.value, bits: width })
  const bits = /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.NaN
  if (!(bits >= 0 && bits <= width)) return fail(`the length of its prefix has to be 0 to ${width}`)
  if ((address.value & (1n << BigInt(width - bits)) - 1n) !== 0n) return fail(`it has bits set behind the first ${bits}`)
  return Result.succeed({ family: address.family, base: address.value, bits })
}
