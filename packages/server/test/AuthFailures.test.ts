import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { TestClock } from "effect/testing"
import * as AuthFailures from "../src/auth/AuthFailures.ts"

it.effect("allows the limit per minute and address, states the wait, and logs one line per address", () => {
  const lines: Array<string> = []
  const logger = Logger.make(({ message }) => {
    lines.push(String(message))
  })
  return Effect.gen(function*() {
    const fail = yield* AuthFailures.make(6)
    const times = (count: number, address: string) => Effect.replicateEffect(fail(address), count)
    expect(yield* times(6, "192.0.2.1")).toEqual([0, 0, 0, 0, 0, 0])
    expect(yield* times(3, "192.0.2.1")).toEqual([10, 10, 10])
    expect(yield* fail("192.0.2.2")).toBe(0)
    expect(lines).toHaveLength(1)
    expect(lines[0]).toContain("192.0.2.1")
    yield* TestClock.adjust("10 seconds")
    expect(yield* times(2, "192.0.2.1")).toEqual([0, 10])
    expect(lines).toHaveLength(1)
    yield* TestClock.adjust("1 minute")
    yield* times(7, "192.0.2.1")
    expect(lines).toHaveLength(2)
  }).pipe(Effect.provide(Logger.layer([logger])))
})

it.effect("remembers a bounded number of addresses, and forgets the address that it has known longest", () =>
  Effect.gen(function*() {
    const fail = yield* AuthFailures.make(1)
    const address = (at: number) => `10.${at >> 16}.${(at >> 8) & 255}.${at & 255}`
    for (let at = 0; at < AuthFailures.MAX_ADDRESSES; at += 1) yield* fail(address(at))
    expect(yield* fail(address(0))).toBe(60)
    yield* fail(address(AuthFailures.MAX_ADDRESSES))
    expect(yield* fail(address(0))).toBe(0)
    expect(yield* fail(address(AuthFailures.MAX_ADDRESSES - 1))).toBe(60)
  }))

it("counts IPv6 addresses per /64, and both spellings of an IPv4 address as one", () => {
  const same: ReadonlyArray<readonly [address: string, subject: string]> = [
    ["192.0.2.1", "192.0.2.1"],
    ["::ffff:192.0.2.1", "192.0.2.1"],
    ["2001:db8::1", "2001:db8:0:0"],
    ["2001:0db8:0:0:ffff:1:2:3", "2001:db8:0:0"],
    ["2001:db8:1:2::", "2001:db8:1:2"],
    ["::1", "0:0:0:0"],
    ["fe80::1%eth0", "fe80:0:0:0"],
    ["unknown", "unknown"]
  ]
  for (const [address, subject] of same) expect(AuthFailures.subjectOf(address), address).toBe(subject)
})
