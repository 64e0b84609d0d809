/**
 * Claims within a transaction. The ready jobs for all claims of the transaction are locked together with `SKIP LOCKED`, and assigned to the claims in
 * order.
 *
 * A claim that finds an expired job with a concurrency key may release held jobs of the key, which may come before the other ready jobs. The
 * transaction has not loaded their inputs and batches, and cannot lock batches after keys. So the claim stops there, and the next transaction
 * continues it.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { type BusyWorker, claimable } from "@stint/store/ClaimRule"
import type { JobMachineEvent } from "@stint/store/JobMachine"
import type { JobRecord } from "@stint/store/JobRecord"
import { type ApplyResult, CLAIM_EXPIRED_LIMIT, type ClaimResult } from "@stint/store/JobStore"
import * as Schema from "effect/Schema"
import { type Entry, recordOf } from "./JobEntry.ts"
import { readyEntries, type Transaction } from "./Transaction.ts"

/** One claim. */
export interface Claim {
  readonly endpoint: EndpointId
  readonly limit: number
  readonly event: Extract<JobMachineEvent, { readonly _tag: "Claim" }>
  /** What earlier transactions have found and committed. */
  readonly found?: ClaimResult
}

/** What a claim has found at the end of a transaction. */
export interface Claimed {
  readonly result: ClaimResult
  /** Whether the next transaction must continue it. */
  readonly isCut: boolean
}

const decodeBusy = Schema.decodeUnknownSync(Schema.Tuple([Schema.String, Schema.Int, Schema.Boolean]))
const decodeCount = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int]))

/** What a claim has found so far. */
interface Found {
  readonly jobs: Array<JobRecord>
  readonly expired: Array<ApplyResult>
}

const isHungry = ({ expired, jobs }: Found, { limit }: Claim): boolean =>
  jobs.length < limit && expired.length < CLAIM_EXPIRED_LIMIT

/** Copied, because a transaction may run again. */
const foundBefore = ({ found }: Claim): Found => ({ jobs: [...found?.jobs ?? []], expired: [...found?.expired ?? []] })

/** Returns whether held jobs became ready because the job had expired. */
const take = ({ work }: Transaction, entry: Entry, { event }: Claim, found: Found): boolean => {
  const applied = work.apply(entry, event)
  if (applied._tag !== "Changed") return false
  if (applied.after.status === "IN_PROGRESS") found.jobs.push(recordOf(entry))
  else found.expired.push(applied)
  return applied.released !== undefined
}

const claimed = (claim: Claim, found: Found, isolating: boolean, isReleased = false): Claimed => ({
  result: { ...found, isolating },
  isCut: isReleased && isHungry(found, claim)
})

/** Whether the endpoint has isolated jobs, as far as the transaction knows. */
const hasIsolated = ({ isolated, work }: Transaction, endpoint: EndpointId): boolean =>
  isolated.has(endpoint) ||
  [...work.entries.values()].some(({ head, removed }) =>
    !removed && head.endpoint === endpoint && head.isolated && head.finishedAt === null
  )

/** Claims jobs. `Again`: the endpoint has isolated jobs, so the claim must run alone. */
export const run = async (transaction: Transaction, claim: Claim): Promise<Claimed | "Again"> => {
  const { endpoint, limit } = claim
  transaction.work.slots.setLimit(endpoint, claim.event.keyLimit)
  if (hasIsolated(transaction, endpoint)) return transaction.isAlone ? await runIsolated(transaction, claim) : "Again"
  const found = foundBefore(claim)
  while (true) {
    for (const entry of readyEntries(transaction, endpoint, claim.event.now)) {
      if (!isHungry(found, claim)) break
      if (take(transaction, entry, claim, found)) return claimed(claim, found, false, true)
    }
    if (!isHungry(found, claim) || !transaction.lastReady.has(endpoint)) break
    await transaction.lockReady(endpoint, limit + CLAIM_EXPIRED_LIMIT, claim.event.now)
  }
  return claimed(claim, found, false)
}

/** While the endpoint has isolated jobs, each claimed job counts for the next decision (ClaimRule.ts), so claims of all nodes run one by one. */
const runIsolated = async (transaction: Transaction, claim: Claim): Promise<Claimed> => {
  const { endpoint, event, limit } = claim
  const { work } = transaction
  await transaction.lockNames([`claim\n${endpoint}`])
  const [workers, counts] = await Promise.all([
    work.query(
      `SELECT worker, count(*)::int, bool_or(isolated) FROM stint.running WHERE endpoint = $1 AND worker IS NOT NULL GROUP BY worker`,
      [
        endpoint
      ]
    ),
    work.query(
      `SELECT (${
        ["ready", "delayed", "running"].map((place) => `(SELECT count(*) FROM stint.${place} WHERE isolated AND endpoint = $1)`)
          .join(" + ")
      })::int`,
      [endpoint]
    )
  ])
  const busy = new Map<string, BusyWorker>(workers.map((row) => {
    const [worker, jobs, isolated] = decodeBusy(row)
    return [worker, { worker, jobs, isolated }]
  }))
  let [isolated] = decodeCount(counts[0])
  const found = foundBefore(claim)
  const step = limit + CLAIM_EXPIRED_LIMIT + busy.size + 1
  let more = true
  const loadMore = async () => {
    const all = await transaction.lockReady(endpoint, step, event.now)
    const shared = await transaction.lockReady(endpoint, step, event.now, "shared")
    more = all + shared > 0
  }
  let hasWaited = false
  /**
   * Whether there are jobs that were locked before. A claim at another node locks jobs before it learns of the isolated ones, and then gives them back
   * without waking anyone, so a claim that skips them would leave its worker waiting beside a ready job.
   */
  const loadSkipped = async () => {
    if (hasWaited || found.jobs.length > 0) return false
    hasWaited = true
    return await transaction.lockReady(endpoint, step, event.now, "waiting") > 0
  }
  await loadMore()
  while (isHungry(found, claim)) {
    const ready = readyEntries(transaction, endpoint, event.now)
    const may = isolated === 0
      ? "next"
      : claimable(event.worker, [...busy.values()], (first) => ready.slice(0, first).map(({ head }) => head))
    if (may === "none") {
      if (await loadSkipped()) continue
      break
    }
    // Non-isolated jobs were loaded beyond the position up to which all jobs were loaded.
    const entry = may === "next"
      ? ready[0]
      : readyEntries(transaction, endpoint, event.now, "all").find(({ head }) => !head.isolated)
    if (entry === undefined) {
      if (more) await loadMore()
      else if (!(await loadSkipped())) break
      continue
    }
    const before = found.jobs.length
    const isReleased = take(transaction, entry, claim, found)
    if (found.jobs.length === before) {
      if (entry.head.isolated) isolated -= 1
    } else {
      const known = busy.get(event.worker)
      busy.set(event.worker, {
        worker: event.worker,
        jobs: (known?.jobs ?? 0) + 1,
        isolated: entry.head.isolated || known?.isolated === true
      })
    }
    if (isReleased) return claimed(claim, found, isolated > 0, true)
  }
  return claimed(claim, found, isolated > 0)
}
