import { History } from "@stint/store-testing"
import { assert, describe, it } from "vitest"

type Event = History.HistoryEvent

const at = (...events: ReadonlyArray<Event extends infer E ? E extends Event ? Omit<E, "at" | "job"> : never : never>) =>
  events.map((event, index) => ({ at: index, job: "a", ...event }))

const submitted = { _tag: "Submitted" } as const
const started = (attempt: number, worker = "ann") => ({ _tag: "Started", worker, attempt }) as const
const delivered = (
  attempt: number,
  output: string | null,
  verdict: "accepted" | "answered" | "ignored" | "refused" = "accepted",
  more = {}
) => ({ _tag: "Delivered", worker: "ann", attempt, verdict, output, ...more }) as const
const seen = (
  status: "IN_QUEUE" | "IN_PROGRESS" | "COMPLETED" | "FAILED" | "CANCELLED",
  output: string | null = null,
  more = {}
) => ({ _tag: "Seen", status, output, ...more }) as const
const cancelled = { _tag: "Cancelled" } as const
const retried = { _tag: "Retried" } as const
const unknown = { _tag: "Unknown" } as const
const interrupted = { _tag: "Interrupted" } as const
const retrying = { _tag: "Submitted", attempts: 2 } as const
const erred = (attempt: number, verdict: "accepted" | "answered" = "accepted") =>
  delivered(attempt, null, verdict, { failed: true })
const chunked = (attempt: number, number: number, output = "x") => ({ _tag: "ChunkWritten", attempt, number, output }) as const
const told = (attempt: number, number: number, output = "x", reader = "r") =>
  ({ _tag: "Told", reader, attempt, number, output }) as const
const toldEnd = (attempt: number, reader = "r") => ({ _tag: "EndRead", reader, attempt }) as const
const notified = (status: "COMPLETED" | "FAILED", { accepted = true, signed = true } = {}) =>
  ({ _tag: "Notified", status, signed, accepted }) as const

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

  it("of a job whose errors are tried again", () => {
    assert.deepStrictEqual(rules(at(retrying, started(1), erred(1), started(2), delivered(2, "x"), seen("COMPLETED", "x"))), [])
    assert.deepStrictEqual(rules(at(retrying, started(1), erred(1), started(2), erred(2), seen("FAILED"))), [])
    assert.deepStrictEqual(rules(at(started(1), erred(1), retrying, started(2), erred(2), seen("FAILED"))), [])
    assert.deepStrictEqual(
      rules(at(retrying, started(1), erred(1), started(2), erred(1, "answered"), delivered(2, "x"), seen("COMPLETED", "x"))),
      []
    )
  })

  it("of readers who are told everything, of a webhook that comes twice, of a handler that is stopped in time", () => {
    assert.deepStrictEqual(
      rules(
        at(
          submitted,
          started(1),
          chunked(1, 1),
          told(1, 1),
          started(2),
          told(2, 1, "y"),
          chunked(2, 1, "y"),
          chunked(2, 2),
          told(2, 2),
          delivered(2, "x"),
          toldEnd(2),
          seen("COMPLETED", "x")
        )
      ),
      []
    )
    assert.deepStrictEqual(
      rules(at({ ...submitted, webhook: true }, seen("COMPLETED", "x"), notified("COMPLETED"), notified("COMPLETED")), {
        notified: true
      }),
      []
    )
    assert.deepStrictEqual(
      rules(at(submitted, started(1), cancelled, interrupted, seen("CANCELLED")), { interruptWithin: 1 }),
      []
    )
    assert.deepStrictEqual(rules(at(submitted, cancelled, seen("CANCELLED")), { interruptWithin: 1 }), [])
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

describe("R2: errors that are tried again", () => {
  it("one error accepted twice", () =>
    assert.deepStrictEqual(rules(at(retrying, started(1), erred(1), erred(1), seen("FAILED"))), ["R2"]))
  it("more of them than are allowed", () =>
    assert.deepStrictEqual(
      rules(at(retrying, started(1), erred(1), started(2), erred(2), started(3), erred(3), seen("FAILED"))),
      ["R2"]
    ))
  it("an error and then a result of the same attempt", () =>
    assert.deepStrictEqual(rules(at(retrying, started(1), erred(1), delivered(1, "x"), seen("COMPLETED", "x"))), ["R2"]))
})

describe("R2: what the wire shows", () => {
  it("a stale result that is taken", () =>
    assert.deepStrictEqual(
      rules(
        at(
          submitted,
          started(1),
          started(2),
          delivered(1, "y", "answered"),
          delivered(2, "x", "answered"),
          seen("COMPLETED", "x")
        )
      ),
      ["R2"]
    ))
  it("an output that nobody delivered", () =>
    assert.deepStrictEqual(rules(at(submitted, started(1), delivered(1, "x", "answered"), seen("COMPLETED", "y"))), ["R2"]))
})

describe("R3: one job a key", () => {
  it("two", () =>
    assert.deepStrictEqual(
      History.check([
        { _tag: "Submitted", at: 0, job: "a", key: "k" },
        { _tag: "Submitted", at: 1, job: "a", key: "k" },
        { _tag: "Submitted", at: 2, job: "b", key: "k" },
        { _tag: "Seen", at: 3, job: "a", status: "COMPLETED", output: null },
        { _tag: "Seen", at: 4, job: "b", status: "COMPLETED", output: null }
      ]).map(({ job, rule }) => [rule, job]),
      [["R3", "b"]]
    ))
})

describe("R5: ended in time", () => {
  it("late", () => assert.deepStrictEqual(rules(at(submitted, seen("IN_QUEUE"), seen("FAILED")), { endedBy: 1 }), ["R5"]))
  it("never", () => assert.deepStrictEqual(rules(at(submitted, seen("IN_QUEUE")), { ended: false, endedBy: 1 }), ["R5"]))
  it("in time", () => assert.deepStrictEqual(rules(at(submitted, seen("FAILED")), { endedBy: 1 }), []))
})

describe("R9: every chunk once, in order", () => {
  const read = (...events: ReadonlyArray<ReturnType<typeof told | typeof chunked | typeof toldEnd>>) =>
    rules(at(submitted, ...events, seen("COMPLETED", "x")))
  it("a gap", () => assert.deepStrictEqual(read(told(1, 1), told(1, 3)), ["R9"]))
  it("a repetition", () => assert.deepStrictEqual(read(told(1, 1), told(1, 1)), ["R9"]))
  it("an earlier attempt", () => assert.deepStrictEqual(read(told(2, 1), told(1, 1)), ["R9"]))
  it("another text", () => assert.deepStrictEqual(read(told(1, 1, "y"), chunked(1, 1, "x")), ["R9"]))
  it("an end before the last chunk", () =>
    assert.deepStrictEqual(read(told(1, 1), toldEnd(1), chunked(1, 1), chunked(1, 2)), ["R9"]))
  it("two ends", () => assert.deepStrictEqual(read(toldEnd(1), toldEnd(1)), ["R9"]))
  it("each reader for itself", () =>
    assert.deepStrictEqual(read(told(1, 1), told(1, 1, "x", "s"), told(1, 2, "x", "s"), told(1, 2)), []))
})

describe("R10: told once at least, and never before", () => {
  const hooked = { ...submitted, webhook: true }
  it("never", () => assert.deepStrictEqual(rules(at(hooked, seen("COMPLETED", "x")), { notified: true }), ["R10"]))
  it("and not accepted", () =>
    assert.deepStrictEqual(
      rules(at(hooked, seen("COMPLETED", "x"), notified("COMPLETED", { accepted: false })), { notified: true }),
      ["R10"]
    ))
  it("by somebody else", () =>
    assert.deepStrictEqual(rules(at(hooked, seen("COMPLETED", "x"), notified("COMPLETED", { signed: false }))), ["R10"]))
  it("before the commit", () =>
    assert.deepStrictEqual(rules(at(hooked, notified("COMPLETED"), seen("IN_PROGRESS"), seen("COMPLETED", "x"))), ["R10"]))
  it("of another end", () => {
    assert.deepStrictEqual(rules(at(hooked, notified("FAILED"), seen("COMPLETED", "x"))), ["R10"])
    assert.deepStrictEqual(rules(at(hooked, seen("COMPLETED", "x"), notified("FAILED"))), ["R10"])
  })
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
  it("interrupts the handler, and in time", () => {
    assert.deepStrictEqual(rules(at(submitted, started(1), cancelled, seen("CANCELLED")), { interruptWithin: 1 }), ["R8"])
    assert.deepStrictEqual(
      rules(at(submitted, started(1), cancelled, seen("CANCELLED"), interrupted), { interruptWithin: 1 }),
      ["R8"]
    )
  })
  it("stays", () => assert.deepStrictEqual(rules(at(submitted, cancelled, seen("COMPLETED", "x"))), ["R8"]))
})

it("a violation says which job and what happened", () => {
  const history = History.make()
  for (const event of at(submitted, seen("COMPLETED", "x"), seen("FAILED"))) history.record(event)
  assert.deepStrictEqual(history.check(), [
    { rule: "R2", job: "a", text: "it had ended COMPLETED with x and was then FAILED with null" }
  ])
})
