/**
 * Rotation of a key's secret: which earlier secrets are kept, and the status of each.
 */
import type { KeyRecord } from "@stint/store/KeyStore"
import { describe, expect, it } from "vitest"
import { digestOf, mint, newId, rotated, secretStatus } from "../src/auth/KeySecret.ts"

const HOUR = 3_600_000

/** A key, rotated once an hour with a grace period of half an hour; and all its secrets, oldest first. */
const rotate = (times: number) => {
  const id = newId()
  const first = mint(id)
  const secrets = [first.secret]
  let key: KeyRecord = {
    id,
    name: "shop",
    digest: first.digest,
    prefix: first.prefix,
    scopes: ["jobs"],
    endpoints: "all",
    createdAt: 0,
    previous: []
  }
  for (let n = 1; n <= times; n++) {
    const next = mint(key.id)
    key = rotated(key, next, HOUR / 2, n * HOUR)
    secrets.push(next.secret)
  }
  return { key, secrets, now: times * HOUR + HOUR / 2 }
}

describe("a rotated key", () => {
  it("keeps only the three newest expired secrets, so that their users get a specific error", () => {
    const { key, secrets, now } = rotate(6)
    expect(secrets.map((secret) => secretStatus(key, digestOf(secret), now)._tag)).toEqual([
      "NoMatch",
      "NoMatch",
      "Inactive",
      "Inactive",
      "Inactive",
      "Inactive",
      "Active"
    ])
    expect(key.previous.length).toBe(4)
  })

  it("accepts the previous secret until its grace period ends", () => {
    const { key, secrets, now } = rotate(1)
    expect(secretStatus(key, digestOf(secrets[0]!), now - 1)._tag).toBe("Active")
    expect(secretStatus(key, digestOf(secrets[0]!), now)).toEqual({ _tag: "Inactive", why: "rotated", at: now })
  })
})
