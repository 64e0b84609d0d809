/**
 * The commands of a search over several nodes. A sequence of commands determines a run completely, so a failing one can be repeated and shortened.
 */
import * as fc from "fast-check"

/** The number of nodes. */
export const NODES = 3

const WORKERS = ["ann", "bob", "cid"] as const

/** The number of idempotency keys, few enough for repeated submissions. */
const KEYS = 30

const node = fc.nat({ max: NODES - 1 })
const worker = fc.constantFrom(...WORKERS)
/** Which of the latest jobs, or of the worker's jobs. */
const job = fc.nat({ max: 5 })

const command = fc.oneof(
  { weight: 6, arbitrary: fc.record({ _tag: fc.constant("Submit" as const), node, key: fc.nat({ max: KEYS - 1 }) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      _tag: fc.constant("Take" as const),
      node,
      worker,
      limit: fc.integer({ min: 1, max: 2 }),
      waitMs: fc.constantFrom(0, 0, 700, 5_000)
    })
  },
  {
    weight: 6,
    arbitrary: fc.record({
      _tag: fc.constant("Deliver" as const),
      node,
      worker,
      job,
      fails: fc.constantFrom(false, false, true)
    })
  },
  { weight: 2, arbitrary: fc.record({ _tag: fc.constant("Chunk" as const), node, worker, job }) },
  { weight: 2, arbitrary: fc.record({ _tag: fc.constant("Heartbeat" as const), node, worker, names: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Die" as const), node, worker, noticed: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ _tag: fc.constant("Cancel" as const), node, job }) },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Retry" as const), node, job }) },
  { weight: 2, arbitrary: fc.record({ _tag: fc.constant("Read" as const), node, job }) },
  {
    weight: 2,
    arbitrary: fc.record({ _tag: fc.constant("Follow" as const), node, job, events: fc.integer({ min: 1, max: 3 }) })
  },
  { weight: 2, arbitrary: fc.record({ _tag: fc.constant("Await" as const), node, job }) },
  { weight: 3, arbitrary: fc.record({ _tag: fc.constant("Tick" as const), node }) },
  { weight: 4, arbitrary: fc.record({ _tag: fc.constant("Pass" as const), ms: fc.constantFrom(50, 400, 1_000, 2_500) }) },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("FailWrite" as const), node, stored: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Freeze" as const), node }) },
  { weight: 2, arbitrary: fc.record({ _tag: fc.constant("Thaw" as const), node }) },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Restart" as const), node }) },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("LoseHints" as const), lost: fc.boolean() }) }
)

/**
 * A command.
 *
 * ```
 *   Submit     with an idempotency key              Tick       the node fires the timers that are due
 *   Take       a long poll of `waitMs`              Pass       time passes
 *   Deliver    a result, perhaps a late one         FailWrite  the node's next write fails, `stored` or not
 *   Chunk      the next chunk of a stream           Freeze     the store answers the node only after Thaw
 *   Heartbeat  `names`: with all jobs, or none      Restart    the node loses its memory and joins as the youngest
 *   Die        the worker forgets its jobs;         LoseHints  whether hints between nodes are lost
 *              `noticed`: its pool says so          Cancel, Retry, Read, Follow, Await: of a caller
 * ```
 */
export type NodeCommand = typeof command extends fc.Arbitrary<infer A> ? A : never

/** A command, and whether the next one starts before it is done. `lag`: how many turns of the scheduler the command waits for first. */
export interface Step {
  readonly command: NodeCommand
  readonly together: boolean
  readonly lag: number
}

/** A sequence of commands. */
export const steps: fc.Arbitrary<ReadonlyArray<Step>> = fc.array(
  fc.record({ command, together: fc.boolean(), lag: fc.nat({ max: 3 }) }),
  { minLength: 1, maxLength: 80, size: "max" }
)
