import { expect, it } from "@effect/vitest"
import { retryAfter } from "../src/RetryAfter.ts"

const now = Date.parse("2026-01-01T00:00:00Z")

it.each([
  ["120", 120_000],
  [" 0 ", 0],
  ["Thu, 01 Jan 2026 00:00:30 GMT", 30_000],
  ["Wed, 31 Dec 2025 00:00:00 GMT", 0],
  ["-5", undefined],
  ["1.5", undefined],
  ["soon", undefined],
  ["99999999999", undefined],
  ["", undefined],
  [undefined, undefined]
])("reads Retry-After %j as %j ms", (header, wait) => expect(retryAfter(header, now)).toBe(wait))
