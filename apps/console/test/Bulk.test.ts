import type { BulkOperation } from "@stint/contract/Bulk"
import { EVERYTHING, NO_TERMS, parseSearch } from "@stint/contract/JobSearch"
import { describe, expect, it } from "vitest"
import { bulkSummary, progressShare, shownOperations } from "../src/jobs/BulkProgress.ts"
import { drawnTerms, isScan, queryAt, undrawnText, withEndpoint, withinLast, withStatus } from "../src/jobs/JobFilter.ts"
import { textsOf, withText } from "../src/ui/SavedTexts.tsx"

const operation = (settings: Partial<BulkOperation> = {}): BulkOperation => ({
  id: "a",
  action: "retry",
  query: "status:failed",
  state: "running",
  createdAt: 0,
  createdBy: "the key \"ops\"",
  startsAt: 10_000,
  matched: { count: 512, more: false },
  done: 120,
  skipped: { changed: 0, missing: 0, endpoint: 0 },
  failed: 0,
  problems: [],
  ...settings
})

describe("bulk operations", () => {
  it("says what was done, what was left unchanged and why, and what failed", () => {
    expect(bulkSummary(operation())).toBe("Retried 120 jobs of 512.")
    expect(bulkSummary(operation({ matched: { count: 10_000, more: true } }))).toBe("Retried 120 jobs.")
    expect(bulkSummary(operation({ state: "done", done: 1, skipped: { changed: 2, missing: 1, endpoint: 0 }, failed: 3 }))).toBe(
      "Retried 1 job, skipped 2 whose status had changed, skipped 1 that had been removed, 3 failed."
    )
    expect(bulkSummary(operation({ state: "cancelled", done: 0 }))).toBe("Cancelled. No job was changed.")
    expect(bulkSummary(operation({ state: "cancelled", action: "cancel" }))).toBe("Cancelled 120 jobs. Then stopped.")
  })

  it("never shows a progress of more than 100 %", () => {
    expect(progressShare(operation({ done: 256 }))).toBe(0.5)
    expect(progressShare(operation({ done: 600 }))).toBe(1)
    expect(progressShare(operation({ matched: { count: 0, more: false }, done: 0 }))).toBe(0)
  })

  it("shows unfinished operations, and those that ended within the last few minutes", () => {
    const all = [
      operation({ id: "new", state: "held" }),
      operation({ id: "ended", state: "done", endedAt: 900_000 }),
      operation({ id: "old", state: "done", endedAt: 600_000 }),
      operation({ id: "long" })
    ]
    expect(shownOperations(all, 1_000_000).map(({ id }) => id)).toEqual(["new", "long", "ended"])
  })
})

describe("the query in the address", () => {
  it("is the text itself, or is built from the filters in a link", () => {
    expect(queryAt({ q: "tag:a status:failed" })).toBe("tag:a status:failed")
    expect(queryAt({ endpoint: "charge", status: "FAILED" })).toBe("endpoint:charge status:failed")
    expect(queryAt({ endpoint: "charge", status: "NONE", tag: 7 })).toBe("endpoint:charge tag:7")
    expect(queryAt({ status: "BROKEN", tag: { a: 1 } })).toBe("")
    for (const none of [{}, undefined]) expect(queryAt(none)).toBe("")
  })
})

describe("the filters", () => {
  const searchOf = (text: string) => parseSearch(text).search ?? EVERYTHING
  const termsOf = (text: string) => drawnTerms(searchOf(text)) ?? NO_TERMS

  it("show one alternative, and show as text what they cannot represent", () => {
    for (const text of ["", "endpoint:a status:failed since:2h", "status:failed status:timed_out"]) {
      expect(undrawnText(searchOf(text)), text).toBe("")
    }
    expect(undrawnText(searchOf("endpoint:a tag:x -status:completed since:2h"))).toBe("tag:x -status:completed")
    expect(undrawnText(searchOf("endpoint:a text:shoes input:\"red hat\""))).toBe("input:\"red hat\" text:shoes")
    expect(undrawnText(searchOf("endpoint:a endpoint:b since:2026-11-22"))).toBe("endpoint:a endpoint:b since:2026-11-22")
    expect(drawnTerms(searchOf("status:failed OR tag:x"))).toBeUndefined()
    expect(undrawnText(searchOf("status:failed OR tag:x"))).toBe("status:failed OR tag:x")
  })

  it("keep the other terms of the query, and replace negated terms of the chosen key", () => {
    const terms = termsOf("tag:x -tag:y -status:completed -endpoint:b")
    expect(withStatus(terms, "FAILED")).toBe("status:failed tag:x -endpoint:b -tag:y")
    expect(withStatus(terms, undefined)).toBe("tag:x -endpoint:b -tag:y")
    expect(withEndpoint(terms, "b")).toBe("endpoint:b tag:x -status:completed -tag:y")
    expect(withinLast(terms, 3_600_000)).toBe("tag:x since:1h -endpoint:b -status:completed -tag:y")
  })

  it("know queries for which the platform compares jobs one by one", () => {
    for (const text of ["error:x", "-error:x", "-tag:x", "status:failed OR worker:w", "input:shoes", "-text:shoes"]) {
      expect(isScan(searchOf(text)), text).toBe(true)
    }
    for (const text of ["", "tag:x", "-status:completed", "status:failed OR tag:x"]) {
      expect(isScan(searchOf(text)), text).toBe(false)
    }
  })
})

describe("saved views", () => {
  it("replaces a view with the same name, and ignores anything that is not a view", () => {
    const one = { name: "night", text: "tag:nightly" }
    const two = { name: "night", text: "tag:nightly status:failed" }
    expect(withText([one], two)).toEqual([two])
    expect(textsOf(JSON.stringify([one, 3, { name: 1 }]))).toEqual([one])
    for (const text of [null, "{", "{}", "7"]) expect(textsOf(text)).toEqual([])
  })
})
