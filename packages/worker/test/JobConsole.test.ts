import { afterEach, describe, expect, it } from "@effect/vitest"
import { CurrentJob } from "@stint/worker/CurrentJob"
import { CurrentStep } from "@stint/worker/CurrentStep"
import * as RunningJob from "@stint/worker/RunningJob"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { vi } from "vitest"
import * as JobConsole from "../src/runtime/JobConsole.ts"

type Printed = { readonly stream: "stdout" | "stderr"; readonly text: string }

const printed: Array<Printed> = []

/** A separate console, and a list of the writes to both streams. */
const installed = () => {
  printed.length = 0
  for (const stream of ["stdout", "stderr"] as const) {
    vi.spyOn(process[stream], "write").mockImplementation((text) => {
      printed.push({ stream, text: String(text) })
      return true
    })
  }
  const plain: Array<ReadonlyArray<unknown>> = []
  const print = (...parts: ReadonlyArray<unknown>) => void plain.push(parts)
  const own = { debug: print, log: print, info: print, warn: print, error: print }
  return { own, plain, restore: JobConsole.install(own) }
}

const within = <A>(id: string, run: () => A): A =>
  RunningJob.within({
    context: Context.make(CurrentJob, { id, input: null }),
    signal: new AbortController().signal,
    abandon: () => {}
  }, run)

afterEach(() => {
  vi.restoreAllMocks()
})

describe("console in a handler", () => {
  it("writes each call as one line of its job, with level and stream", () => {
    const { own } = installed()
    within("job-1", () => {
      own.log("step %d of", 1, { n: [1, 2] })
      own.error(new Error("it broke").message, "\nand more")
    })
    expect(printed.map(({ stream, text }) => [stream, text.endsWith("}\n"), JSON.parse(text)])).toEqual([
      ["stdout", true, { requestId: "job-1", message: "step 1 of { n: [ 1, 2 ] }", level: "INFO", source: "stdout" }],
      ["stderr", true, { requestId: "job-1", message: "it broke \nand more", level: "ERROR", source: "stderr" }]
    ])
  })

  it("names the step of a pipeline", () => {
    const { own } = installed()
    const context = Context.add(Context.make(CurrentJob, { id: "run-1", input: null }), CurrentStep, "page[2]")
    RunningJob.within({ context, signal: new AbortController().signal, abandon: () => {} }, () => own.log("hello"))
    expect(printed.map(({ text }) => JSON.parse(text))).toEqual([
      { requestId: "run-1", message: "hello", level: "INFO", source: "stdout", step: "page[2]" }
    ])
  })

  it("finds the job in called functions and after an await", async () => {
    const { own } = installed()
    await Promise.all(["a", "b"].map((id) =>
      within(id, async () => {
        await new Promise((resolve) => setImmediate(resolve))
        own.warn(`of ${id}`)
      })
    ))
    expect(printed.map(({ text }) => JSON.parse(text)).map(({ message, requestId }) => [requestId, message])).toEqual([
      ["a", "of a"],
      ["b", "of b"]
    ])
  })

  it("finds the job of the Effect that runs, with concurrent jobs and in forked fibers", async () => {
    const { own, plain } = installed()
    const job = (id: string) =>
      Effect.gen(function*() {
        own.log("begin")
        yield* Effect.yieldNow
        yield* Effect.all([Effect.sync(() => own.log("one")), Effect.promise(async () => own.log("two"))], {
          concurrency: 2
        })
        yield* Effect.sleep(1)
        own.log("end")
      }).pipe(Effect.provideService(CurrentJob, { id, input: null }))
    await Effect.runPromise(Effect.all([job("a"), job("b"), Effect.sync(() => own.log("of none"))], { concurrency: "unbounded" }))
    const lines = printed.map(({ text }) => JSON.parse(text)).map(({ message, requestId }) => `${requestId} ${message}`)
    expect(lines.toSorted()).toEqual(["a begin", "a end", "a one", "a two", "b begin", "b end", "b one", "b two"])
    expect(plain).toEqual([["of none"]])
  })

  it("is unchanged outside a job and after it is restored", () => {
    const { own, plain, restore } = installed()
    own.log("loading", 1)
    restore()
    within("job-1", () => own.log("after"))
    expect(plain).toEqual([["loading", 1], ["after"]])
    expect(printed).toEqual([])
  })
})
