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
const failed = (attempt: number, verdict: "accepted" | "answered" = "accepted") =>
  delivered(attempt, null, verdict, { failed: true })
const chunkWritten = (attempt: number, number: number, output = "x") =>
  ({ _tag: "ChunkWritten", attempt, number, output }) as const
const chunkRead = (attempt: number, number: number, output = "x", reader = "r") =>
  ({ _tag: "ChunkRead", reader, attempt, number, output }) as const
const endRead = (attempt: number, reader = "r") => ({ _tag: "EndRead", reader, attempt }) as const
const notified = (status: "COMPLETED" | "FAILED", { accepted = true, signed = true } = {}) =>
  ({ _tag: "Notified", status, signed, accepted }) as const

const rules = (events: ReadonlyArray<Event>, expectations?: History.Expectations) =>
  History.check(events, expectations).map((violation) => violation.rule)

describe("History.check accepts", () => {
  it("a job that runs once", () => {
    assert.deepStrictEqual(
      History.check(at(submitted, seen("IN_QUEUE"), started(1), seen("IN_PROGRESS"), delivered(1, "x"), seen("COMPLETED", "x")), {
        faultless: true
      }),
      []
    )
  })

  it("the response to a retried error that arrives after the result of the next attempt", () => {
    const late = {
      _tag: "Delivered",
      at: 5,
      askedAt: 2,
      job: "a",
      worker: "ann",
      attempt: 1,
      verdict: "accepted",
      failed: true,
      output: null
    } as const
    const result = { ...late, at: 4, askedAt: 4, attempt: 2, failed: false, output: "x" } as const
    assert.deepStrictEqual(
      rules([...at(retrying, started(1)), { ...started(2), at: 3, job: "a" }, result, late, {
        ...seen("COMPLETED", "x"),
        at: 6,
        job: "a"
      }]),
      []
    )
    assert.deepStrictEqual(
      rules([...at(retrying, started(1)), { ...started(2), at: 3, job: "a" }, result, { ...late, askedAt: 5 }]).includes("R2"),
      true
    )
  })

  it("a job that loses a worker whose late result is refused or ignored", () => {
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

  it("a job that fails, is retried and succeeds", () => {
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

  it("a job that is cancelled", () => {
    assert.deepStrictEqual(rules(at(submitted, started(1), cancelled, delivered(1, "x", "ignored"), seen("CANCELLED"))), [])
  })

  it("reads whose responses were overtaken", () => {
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

  it("a job whose errors are retried", () => {
    assert.deepStrictEqual(rules(at(retrying, started(1), failed(1), started(2), delivered(2, "x"), seen("COMPLETED", "x"))), [])
    assert.deepStrictEqual(rules(at(retrying, started(1), failed(1), started(2), failed(2), seen("FAILED"))), [])
    assert.deepStrictEqual(rules(at(started(1), failed(1), retrying, started(2), failed(2), seen("FAILED"))), [])
    assert.deepStrictEqual(
      rules(at(retrying, started(1), failed(1), started(2), failed(1, "answered"), delivered(2, "x"), seen("COMPLETED", "x"))),
      []
    )
  })

  it("readers that receive every chunk, a webhook that arrives twice, a handler that stops in time", () => {
    assert.deepStrictEqual(
      rules(
        at(
          submitted,
          started(1),
          chunkWritten(1, 1),
          chunkRead(1, 1),
          started(2),
          chunkRead(2, 1, "y"),
          chunkWritten(2, 1, "y"),
          chunkWritten(2, 2),
          chunkRead(2, 2),
          delivered(2, "x"),
          endRead(2),
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

  it("a submission that was never acknowledged", () => {
    assert.deepStrictEqual(rules(at(started(1), seen("IN_PROGRESS"))), [])
    assert.deepStrictEqual(rules(at(unknown)), [])
  })
})

describe("History.check, R1: no acknowledged job is lost", () => {
  it("reports an acknowledged job that does not exist", () => assert.deepStrictEqual(rules(at(submitted, unknown)), ["R1"]))
  it("accepts a job that was removed after its retention", () =>
    assert.deepStrictEqual(rules(at(submitted, seen("COMPLETED", "x"), unknown), { mayForget: true }), []))
  it("reports an acknowledged job that was never read", () => assert.deepStrictEqual(rules(at(submitted)), ["R1"]))
  it("reports a job that has not ended when all should have", () =>
    assert.deepStrictEqual(rules(at(submitted, seen("IN_QUEUE"))), ["R1"]))
  it("accepts a job that has not ended while work continues", () =>
    assert.deepStrictEqual(rules(at(submitted, seen("IN_QUEUE")), { ended: false }), []))
})

describe("History.check, R2: a job ends exactly once, with the accepted attempt", () => {
  it("reports two ends", () => assert.deepStrictEqual(rules(at(submitted, seen("COMPLETED", "x"), seen("FAILED"))), ["R2"]))
  it("reports an end that is undone", () =>
    assert.deepStrictEqual(rules(at(submitted, seen("COMPLETED", "x"), seen("IN_QUEUE"), seen("COMPLETED", "x"))), ["R2"]))
  it("reports an output that changes", () =>
    assert.deepStrictEqual(rules(at(submitted, seen("COMPLETED", "x"), seen("COMPLETED", "y"))), ["R2"]))
  it("reports two ends, even if one response was overtaken", () =>
    assert.deepStrictEqual(
      rules(at(submitted, seen("COMPLETED", "x"), seen("FAILED", null, { askedAt: 0 }), seen("COMPLETED", "x"))),
      ["R2"]
    ))
  it("reports two accepted results", () =>
    assert.include(rules(at(submitted, started(1), delivered(1, "x"), delivered(1, "x"), seen("COMPLETED", "x"))), "R2"))
  it("reports an accepted result of an earlier attempt", () =>
    assert.deepStrictEqual(rules(at(submitted, started(1), started(2), delivered(1, "x"), seen("COMPLETED", "x"))), ["R2"]))
  it("reports an output that differs from the accepted one", () =>
    assert.deepStrictEqual(rules(at(submitted, started(1), delivered(1, "x"), seen("COMPLETED", "y"))), ["R2"]))
  it("reports an accepted result that is not the job's end", () =>
    assert.deepStrictEqual(rules(at(submitted, started(1), delivered(1, "x"), seen("CANCELLED"))), ["R2"]))
  it("reports an attempt that two workers took", () =>
    assert.deepStrictEqual(rules(at(submitted, started(1), started(1, "bob"), seen("FAILED"))), ["R2"]))
  it("reports an attempt number that decreases", () =>
    assert.deepStrictEqual(rules(at(submitted, started(2), seen("FAILED", null, { attempt: 1 }))), ["R2"]))
})

describe("History.check, R2: chunks of a stale worker", () => {
  const stale = chunkWritten(1, 1)
  it("reports a chunk that was stored after a later attempt had started", () =>
    assert.deepStrictEqual(rules(at(submitted, started(1), started(2), stale, seen("FAILED"))), ["R2"]))
  it("accepts a chunk that was sent before, and one that is refused", () => {
    const sentBefore = { ...stale, askedAt: 1 }
    assert.deepStrictEqual(rules(at(submitted, started(1), started(2), sentBefore, seen("FAILED"))), [])
    const refused = { _tag: "ChunkRefused", attempt: 1 } as const
    assert.deepStrictEqual(rules(at(submitted, started(1), started(2), refused, seen("FAILED"))), [])
  })
})

it("counts jobs, lost jobs and refused writes", () => {
  const events = at(submitted, started(1), started(2), delivered(1, "x", "refused"), unknown)
  assert.deepStrictEqual(History.count(events, History.check(events)), {
    jobs: 1,
    lost: 1,
    "stale writes refused": 1,
    cancels: 0
  })
})

describe("History.check, R2: errors that are retried", () => {
  it("reports an error that was accepted twice", () =>
    assert.deepStrictEqual(rules(at(retrying, started(1), failed(1), failed(1), seen("FAILED"))), ["R2"]))
  it("reports more failed attempts than allowed", () =>
    assert.deepStrictEqual(
      rules(at(retrying, started(1), failed(1), started(2), failed(2), started(3), failed(3), seen("FAILED"))),
      ["R2"]
    ))
  it("reports an error and then a result of the same attempt", () =>
    assert.deepStrictEqual(rules(at(retrying, started(1), failed(1), delivered(1, "x"), seen("COMPLETED", "x"))), ["R2"]))
})

describe("History.check, R2: results over HTTP", () => {
  it("reports when a result of an earlier attempt gets a response", () =>
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
  it("reports an output that no worker delivered", () =>
    assert.deepStrictEqual(rules(at(submitted, started(1), delivered(1, "x", "answered"), seen("COMPLETED", "y"))), ["R2"]))
})

describe("History.check, R3: one job per key", () => {
  it("reports a second job of a key", () =>
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

describe("History.check, R5: ended in time", () => {
  it("reports a job that ended late", () =>
    assert.deepStrictEqual(rules(at(submitted, seen("IN_QUEUE"), seen("FAILED")), { endedBy: 1 }), ["R5"]))
  it("reports a job that never ended", () =>
    assert.deepStrictEqual(rules(at(submitted, seen("IN_QUEUE")), { ended: false, endedBy: 1 }), ["R5"]))
  it("accepts a job that ended in time", () => assert.deepStrictEqual(rules(at(submitted, seen("FAILED")), { endedBy: 1 }), []))
})

describe("History.check, R9: every chunk once, in order", () => {
  const read = (...events: ReadonlyArray<ReturnType<typeof chunkRead | typeof chunkWritten | typeof endRead>>) =>
    rules(at(submitted, ...events, seen("COMPLETED", "x")))
  it("reports a gap", () => assert.deepStrictEqual(read(chunkRead(1, 1), chunkRead(1, 3)), ["R9"]))
  it("reports a repetition", () => assert.deepStrictEqual(read(chunkRead(1, 1), chunkRead(1, 1)), ["R9"]))
  it("reports a chunk of an earlier attempt", () => assert.deepStrictEqual(read(chunkRead(2, 1), chunkRead(1, 1)), ["R9"]))
  it("reports a chunk that differs from the written one", () =>
    assert.deepStrictEqual(read(chunkRead(1, 1, "y"), chunkWritten(1, 1, "x")), ["R9"]))
  it("reports an end before the last chunk", () =>
    assert.deepStrictEqual(read(chunkRead(1, 1), endRead(1), chunkWritten(1, 1), chunkWritten(1, 2)), ["R9"]))
  it("reports an end that was received twice", () => assert.deepStrictEqual(read(endRead(1), endRead(1)), ["R9"]))
  it("checks each reader separately", () =>
    assert.deepStrictEqual(read(chunkRead(1, 1), chunkRead(1, 1, "x", "s"), chunkRead(1, 2, "x", "s"), chunkRead(1, 2)), []))
})

describe("History.check, R10: a webhook delivers every end, and none before it happened", () => {
  const withWebhook = { ...submitted, webhook: true }
  it("reports an end that was never delivered", () =>
    assert.deepStrictEqual(rules(at(withWebhook, seen("COMPLETED", "x")), { notified: true }), ["R10"]))
  it("reports an end event that no receiver accepted", () =>
    assert.deepStrictEqual(
      rules(at(withWebhook, seen("COMPLETED", "x"), notified("COMPLETED", { accepted: false })), { notified: true }),
      ["R10"]
    ))
  it("reports a wrong signature", () =>
    assert.deepStrictEqual(rules(at(withWebhook, seen("COMPLETED", "x"), notified("COMPLETED", { signed: false }))), ["R10"]))
  it("reports a delivery before the end was committed", () =>
    assert.deepStrictEqual(rules(at(withWebhook, notified("COMPLETED"), seen("IN_PROGRESS"), seen("COMPLETED", "x"))), ["R10"]))
  it("reports a delivery of a different end", () => {
    assert.deepStrictEqual(rules(at(withWebhook, notified("FAILED"), seen("COMPLETED", "x"))), ["R10"])
    assert.deepStrictEqual(rules(at(withWebhook, seen("COMPLETED", "x"), notified("FAILED"))), ["R10"])
  })
})

describe("History.check, R4: one start when nothing fails", () => {
  it("reports a job that never started", () =>
    assert.deepStrictEqual(rules(at(submitted, seen("COMPLETED")), { faultless: true }), ["R4"]))
  it("reports a job that started twice", () =>
    assert.deepStrictEqual(rules(at(submitted, started(1), started(2), seen("FAILED")), { faultless: true }), ["R4"]))
})

describe("History.check, R8: acknowledged cancels", () => {
  it("reports a start after an acknowledged cancel", () =>
    assert.deepStrictEqual(rules(at(submitted, cancelled, started(1), seen("CANCELLED"))), ["R8"]))
  it("accepts a start that is observed within the grace period", () =>
    assert.deepStrictEqual(rules(at(submitted, cancelled, started(1), seen("CANCELLED")), { cancelGrace: 1 }), []))
  it("reports a handler that was not interrupted, or too late", () => {
    assert.deepStrictEqual(rules(at(submitted, started(1), cancelled, seen("CANCELLED")), { interruptWithin: 1 }), ["R8"])
    assert.deepStrictEqual(
      rules(at(submitted, started(1), cancelled, seen("CANCELLED"), interrupted), { interruptWithin: 1 }),
      ["R8"]
    )
  })
  it("reports a cancelled job that completes", () =>
    assert.deepStrictEqual(rules(at(submitted, cancelled, seen("COMPLETED", "x"))), ["R8"]))
})

it("names the job and what happened in a violation", () => {
  const history = History.make()
  for (const event of at(submitted, seen("COMPLETED", "x"), seen("FAILED"))) history.record(event)
  assert.deepStrictEqual(history.check(), [
    { rule: "R2", job: "a", text: "it had ended COMPLETED with x and was then FAILED with null" }
  ])
})
