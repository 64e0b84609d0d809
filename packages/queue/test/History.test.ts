import { History } from "@stint/queue/testing"
import { assert, describe, it } from "vitest"

type Event = History.HistoryEvent

const at = (...events: ReadonlyArray<Event extends infer E ? E extends Event ? Omit<E, "at" | "job"> : never : never>) =>
  events.map((event, index) => ({ at: index, job: "a", ...event }))

const submitted = { _tag: "Submitted" } as const
const started = (attempt: number, worker = "ann") => ({ _tag: "Started", worker, attempt }) as const
const delivered = (attempt: number, output: string | null, verdict: "accepted" | "ignored" | "refused" = "accepted", more = {}) =>
  ({ _tag: "Delivered", worker: "ann", attempt, verdict, output, ...more }) as const
const seen = (
  status: "IN_QUEUE" | "IN_PROGRESS" | "COMPLETED" | "FAILED" | "CANCELLED",
  output: string | null = null,
  more = {}
) => ({ _tag: "Seen", status, output, ...more }) as const
const cancelled = { _tag: "Cancelled" } as const
const retried = { _tag: "Retried" } as const
const unknown = { _tag: "Unknown" } as const

const rules = (events: ReadonlyArray<Event>, expectations?: History.Expectations) =>
  History.check(events, expectations).map((violation) => violation.rule)

describe("a lawful history has no violations", () => {
  it("of a job that runs once", () => {
    assert.deepStrictEqual(
      History.check(at(submitted, seen("IN_QUEUE"), started(1), seen("IN_PROGRESS"), delivered(1, "x"), seen("COMPLETED", "x")), {
        faultless: true
      }),
      []
    )
  })

  it("of a job that loses a worker, whose late result is refused or ignored", () => {
    assert.deepStrictEqual(
      rules(
        at(
          submitted,
          started(1),
          started(2),
          delivered(1, "late", "refused"),
          delivered(2, "x"),
          delivered(2, "x", "ignored"),
          seen("COMPLETED", "x")
        )
      ),
      []
    )
  })

  it("of a job that fails, is retried and succeeds", () => {
    assert.deepStrictEqual(
      rules(
        at(
          submitted,
          started(1),
          delivered(1, null),
          seen("FAILED"),
          retried,
          started(2),
          delivered(2, "x"),
          seen("COMPLETED", "x")
        )
      ),
      []
    )
  })

  it("of a job that is cancelled", () => {
    assert.deepStrictEqual(rules(at(submitted, started(1), cancelled, delivered(1, "x", "ignored"), seen("CANCELLED"))), [])
  })

  it("of looks whose answers were overtaken", () => {
    assert.deepStrictEqual(
      rules(
        at(
          submitted,
          started(1),
          delivered(1, "x"),
          seen("IN_PROGRESS", null, { askedAt: 1, attempt: 1 }),
          seen("COMPLETED", "x")
        )
      ),
      []
    )
    assert.deepStrictEqual(
      rules(at(submitted, started(1), started(2), delivered(1, null, "accepted", { askedAt: 1 }), seen("FAILED"))),
      []
    )
  })

  it("of a submission that was never acknowledged", () => {
    assert.deepStrictEqual(rules(at(started(1), seen("IN_PROGRESS"))), [])
    assert.deepStrictEqual(rules(at(unknown)), [])
  })
})

describe("R1: acknowledged and lost", () => {
  it("not there", () => assert.deepStrictEqual(rules(at(submitted, unknown)), ["R1"]))
  it("not there any more is fine after its retention", () =>
    assert.deepStrictEqual(rules(at(submitted, seen("COMPLETED", "x"), unknown), { mayForget: true }), []))
  it("nobody looked", () => assert.deepStrictEqual(rules(at(submitted)), ["R1"]))
  it("not ended when all should have", () => assert.deepStrictEqual(rules(at(submitted, seen("IN_QUEUE"))), ["R1"]))
  it("not ended is fine while work goes on", () =>
    assert.deepStrictEqual(rules(at(submitted, seen("IN_QUEUE")), { ended: false }), []))
})

describe("R2: one end, that of the accepted attempt", () => {
  it("two ends", () => assert.deepStrictEqual(rules(at(submitted, seen("COMPLETED", "x"), seen("FAILED"))), ["R2"]))
  it("an end that is taken back", () =>
    assert.deepStrictEqual(rules(at(submitted, seen("COMPLETED", "x"), seen("IN_QUEUE"), seen("COMPLETED", "x"))), ["R2"]))
  it("an output that changes", () =>
    assert.deepStrictEqual(rules(at(submitted, seen("COMPLETED", "x"), seen("COMPLETED", "y"))), ["R2"]))
  it("two ends, even where one answer was overtaken", () =>
    assert.deepStrictEqual(
      rules(at(submitted, seen("COMPLETED", "x"), seen("FAILED", null, { askedAt: 0 }), seen("COMPLETED", "x"))),
      ["R2"]
    ))
  it("two accepted results", () =>
    assert.include(rules(at(submitted, started(1), delivered(1, "x"), delivered(1, "x"), seen("COMPLETED", "x"))), "R2"))
  it("a stale result accepted", () =>
    assert.deepStrictEqual(rules(at(submitted, started(1), started(2), delivered(1, "x"), seen("COMPLETED", "x"))), ["R2"]))
  it("somebody else's output", () =>
    assert.deepStrictEqual(rules(at(submitted, started(1), delivered(1, "x"), seen("COMPLETED", "y"))), ["R2"]))
  it("a result that was accepted and came to nothing", () =>
    assert.deepStrictEqual(rules(at(submitted, started(1), delivered(1, "x"), seen("CANCELLED"))), ["R2"]))
  it("one attempt handed out twice", () =>
    assert.deepStrictEqual(rules(at(submitted, started(1), started(1, "bob"), seen("FAILED"))), ["R2"]))
  it("attempts that shrink", () =>
    assert.deepStrictEqual(rules(at(submitted, started(2), seen("FAILED", null, { attempt: 1 }))), ["R2"]))
})

describe("R4: once where nothing fails", () => {
  it("never", () => assert.deepStrictEqual(rules(at(submitted, seen("COMPLETED")), { faultless: true }), ["R4"]))
  it("twice", () =>
    assert.deepStrictEqual(rules(at(submitted, started(1), started(2), seen("FAILED")), { faultless: true }), ["R4"]))
})

describe("R8: a cancel that was acknowledged", () => {
  it("is followed by no start", () =>
    assert.deepStrictEqual(rules(at(submitted, cancelled, started(1), seen("CANCELLED"))), ["R8"]))
  it("may be followed by the news of one", () =>
    assert.deepStrictEqual(rules(at(submitted, cancelled, started(1), seen("CANCELLED")), { cancelGrace: 1 }), []))
  it("stays", () => assert.deepStrictEqual(rules(at(submitted, cancelled, seen("COMPLETED", "x"))), ["R8"]))
})

it("a violation says which job and what happened", () => {
  const history = History.make()
  for (const event of at(submitted, seen("COMPLETED", "x"), seen("FAILED"))) history.record(event)
  assert.deepStrictEqual(history.check(), [
    { rule: "R2", job: "a", text: "it had ended COMPLETED with x and was then FAILED with null" }
  ])
})
