/**
 * Searches of jobs that change meanwhile, and the number of their reads.
 */
import { assert, describe, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import type { JobStatus } from "@stint/contract/Job"
import { type JobSearch, parseSearch } from "@stint/contract/JobSearch"
import { matchesSearch } from "@stint/contract/SearchMatch"
import * as JobSearches from "@stint/queue/JobSearches"
import { type JobQuery, SCAN_LIMIT } from "@stint/store/JobQuery"
import type { JobSummary } from "@stint/store/JobRecord"
import { compareNewestFirst, type ListCursor } from "@stint/store/ListCursor"
import * as Effect from "effect/Effect"
import * as Scenario from "../src/Scenario.ts"
import { runSeed, seededRandom } from "../src/SeededRandom.ts"

const E = EndpointId.make("letters")

const queryOf = (text: string): JobSearch => {
  const { problem, search } = parseSearch(text)
  if (search === undefined) throw new Error(`${text}: ${problem.message}`)
  return search
}

/** One job each second, newest first. */
const jobsOf = (count: number, of: (index: number) => Partial<JobSummary>): Array<JobSummary> =>
  Array.from(
    { length: count },
    (_, index) => ({ ...Scenario.record({ createdAt: index * 1_000 }), errorGroup: null, ...of(index) })
  )
    .toSorted(compareNewestFirst)

/** The searches of a store of jobs. `change` runs before each read. */
const storeOf = (jobs: ReadonlyArray<JobSummary>, change: () => void = () => {}) => {
  const reads = { lists: 0, rows: 0 }
  const list = (_: EndpointId, { after, createdAfter = -Infinity, createdBefore = Infinity, limit, status, tag }: JobQuery) =>
    Effect.sync(() => {
      change()
      const found = jobs.filter((job) =>
        (status === undefined || job.status === status) && (tag === undefined || job.tags.includes(tag)) &&
        job.createdAt >= createdAfter && job.createdAt < createdBefore &&
        (after === undefined || compareNewestFirst(after, job) < 0)
      ).slice(0, limit)
      reads.lists += 1
      reads.rows += found.length
      const last = found.at(-1)
      return {
        jobs: found,
        next: last === undefined || found.length < limit ? null : { createdAt: last.createdAt, id: last.id }
      }
    })
  return { reads, ...JobSearches.make({ list, texts: () => Effect.succeed(new Map()) }) }
}

/** The statuses that follow a status. */
const NEXT: Readonly<Partial<Record<JobStatus, ReadonlyArray<JobStatus>>>> = {
  IN_QUEUE: ["IN_PROGRESS", "CANCELLED"],
  IN_PROGRESS: ["COMPLETED", "FAILED", "CANCELLED"]
}

describe("searches", () => {
  it.effect("find each job that matches the whole time once, newest first, while jobs run and end", () =>
    Effect.gen(function*() {
      const seed = runSeed()
      const random = seededRandom(seed)
      const pick = <A>(values: ReadonlyArray<A>): A | undefined => values[Math.floor(random() * values.length)]
      const terms = [
        ...["waiting", "running", "completed", "failed", "cancelled"].flatMap((one) => [`status:${one}`, `-status:${one}`]),
        ...["a", "b"].flatMap((one) => [`tag:${one}`, `-tag:${one}`]),
        ...[50, 120, 190, 260, 330].flatMap((one) => [`since:${one}s`, `before:${one}s`])
      ]
      const alternative = () => {
        const chosen = terms.filter(() => random() < 0.15)
        const isFirst = (term: string, index: number) =>
          !/^(?:since|before)/.test(term) || chosen.findIndex((one) => one.startsWith(term.slice(0, 5))) === index
        return chosen.filter(isFirst).join(" ") || "status:waiting"
      }
      let changed = 0
      for (let run = 0; run < 100; run++) {
        const text = Array.from({ length: pick([1, 3, 6]) ?? 1 }, alternative).join(" OR ")
        const query = queryOf(text)
        const now = 400_000
        const jobs = jobsOf(400, () => ({
          status: pick(["IN_QUEUE", "IN_QUEUE", "IN_QUEUE", "IN_PROGRESS", "FAILED"] as const) ?? "IN_QUEUE",
          tags: ["a", "b"].filter(() => random() < 0.4)
        }))
        const matching = new Set(jobs.filter((job) => matchesSearch(query, job, now)).map(({ id }) => id))
        const rate = pick([0, 0.5, 0.9]) ?? 0
        const { search } = storeOf(jobs, () => {
          while (random() < rate) {
            const at = Math.floor(random() * jobs.length)
            const job = jobs[at]
            const status = pick(NEXT[job?.status ?? "COMPLETED"] ?? [])
            if (job === undefined || status === undefined) continue
            jobs[at] = { ...job, status }
            changed += 1
            if (!matchesSearch(query, { ...job, status }, now)) matching.delete(job.id)
          }
        })
        const limit = pick([20, 200]) ?? 1
        const found: Array<JobSummary> = []
        let after: ListCursor | null | undefined
        do {
          const page = yield* search({ endpoints: [E], search: query, now, limit, after })
          found.push(...page.jobs)
          after = page.next
        } while (after !== null)
        const about = `${text} in pages of ${limit}, run ${run}, seed ${seed}`
        assert.deepStrictEqual(found.toSorted(compareNewestFirst), found, about)
        assert.lengthOf(new Set(found.map(({ id }) => id)), found.length, about)
        assert.deepStrictEqual([...matching].filter((id) => !found.some((job) => job.id === id)), [], about)
        if (rate === 0) assert.lengthOf(found, matching.size, about)
      }
      assert.isAbove(changed, 500)
    }))

  const alternatives = (of: (index: number) => string) => Array.from({ length: 20 }, (_, index) => of(index)).join(" OR ")
  for (
    const [title, text] of [
      ["that overlap", alternatives((index) => `-status:done worker:x since:${4_000 + index}s before:${index}s`)],
      [
        "one after another",
        alternatives((index) => `-status:done worker:x since:${(index + 1) * 200}s before:${index * 200 + 1}s`)
      ]
    ] as const
  ) {
    it.effect(`examine a job of 20 alternatives with times ${title} about as often as one of a single alternative`, () =>
      Effect.gen(function*() {
        const jobs = jobsOf(SCAN_LIMIT * 2, (index) => ({ status: index % 2 === 0 ? "IN_QUEUE" : "IN_PROGRESS" }))
        const { reads, search } = storeOf(jobs)
        const { next } = yield* search({ endpoints: [E], search: queryOf(text), now: SCAN_LIMIT * 2_000 })
        assert.isNotNull(next)
        assert.isBelow(reads.rows, SCAN_LIMIT * 4)
        assert.isBelow(reads.lists, 2_500)
      }))
  }
})
