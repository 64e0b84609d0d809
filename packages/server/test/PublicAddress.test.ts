import { describe, expect, it } from "@effect/vitest"
import { guess, local } from "@stint/server/PublicAddress"

const loopback = { address: "127.0.0.1", family: "IPv4", internal: true } as const
const outer = { address: "192.168.1.5", family: "IPv4", internal: false } as const
const six = { address: "fe80::1", family: "IPv6", internal: false } as const

describe("the public address", () => {
  it("is the address that the server listens on, if that can be called", () => {
    for (const listening of ["http://127.0.0.1:4600", "http://[::1]:4600", "http://192.168.1.5"]) {
      expect(guess(listening, { lo: [loopback], eth0: [outer] })).toEqual({ baseUrl: listening })
      expect(local(listening)).toBe(listening)
    }
  })

  it("is the machine's first external IPv4 address when the server listens on every address, and is marked as a guess", () => {
    for (const listening of ["http://0.0.0.0:4600", "http://[::]:4600"]) {
      expect(guess(listening, { lo: [loopback], eth0: [six, outer] })).toEqual({
        baseUrl: "http://192.168.1.5:4600",
        guessedFrom: listening
      })
      expect(local(listening)).toBe("http://127.0.0.1:4600")
    }
  })

  it("is the loopback address of a machine without a network", () => {
    expect(guess("http://0.0.0.0:4600", { lo: [loopback], eth0: [six], none: undefined }).baseUrl).toBe("http://127.0.0.1:4600")
    expect(guess("http://0.0.0.0", {}).baseUrl).toBe("http://127.0.0.1")
  })
})
