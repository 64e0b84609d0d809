import { describe, expect, it } from "@effect/vitest"
import { guess, local } from "@stint/server/PublicAddress"

const loopback = { address: "127.0.0.1", family: "IPv4", internal: true } as const
const outer = { address: "192.168.1.5", family: "IPv4", internal: false } as const
const six = { address: "fe80::1", family: "IPv6", internal: false } as const

describe("the address that others are told", () => {
  it("is the one that the server listens on, where it is one", () => {
    for (const listening of ["http://127.0.0.1:4600", "http://[::1]:4600", "http://192.168.1.5"]) {
      expect(guess(listening, { lo: [loopback], eth0: [outer] })).toEqual({ baseUrl: listening })
      expect(local(listening)).toBe(listening)
    }
  })

  it("is the machine's first IPv4 address that others can reach, where it listens on every address, and says that this is a guess", () => {
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
