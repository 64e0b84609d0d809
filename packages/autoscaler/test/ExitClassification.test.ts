import { assert, describe, it } from "@effect/vitest"
import { make } from "@stint/pool/LogTail"
import { describeExit, summaryOfExit, withLastOutput, type WorkerExit } from "@stint/pool/WorkerExit"
import * as fc from "fast-check"
import { classifyExit, type ExitContext } from "../src/ExitClassification.ts"

const exited = (code: number, log: ReadonlyArray<string> = []): WorkerExit => ({ _tag: "Exited", code, log })
const killed = (signal: string, outOfMemory = false): WorkerExit => ({ _tag: "Killed", signal, outOfMemory, log: [] })

const contextOf = (more: Partial<ExitContext>): ExitContext => ({
  worker: "w-1",
  exit: exited(0),
  ready: true,
  jobsHeld: 0,
  exitExpected: false,
  killReason: undefined,
  unhealthy: undefined,
  ...more
})

const classified = (more: Partial<ExitContext>) => {
  const { cause, kind } = classifyExit(contextOf(more))
  return [kind, cause]
}

describe("ExitClassification", () => {
  it("reports no cause for an orderly exit", () => {
    assert.deepStrictEqual(classified({}), ["left", undefined])
    assert.deepStrictEqual(classified({ exitExpected: true }), ["left", undefined])
    assert.deepStrictEqual(classified({ exitExpected: true, exit: killed("SIGTERM") }), ["left", undefined])
    assert.deepStrictEqual(classified({ exitExpected: true, exit: exited(1) }), ["left", undefined])
    assert.deepStrictEqual(classified({ exitExpected: true, ready: false, exit: killed("SIGKILL"), killReason: "Not needed." }), [
      "left",
      undefined
    ])
  })

  it("reports no cause for jobs that a worker received but did not start before an orderly exit", () =>
    assert.deepStrictEqual(classified({ exitExpected: true, jobsHeld: 1 }), ["left", undefined]))

  it("reports a cause for an exit during a job", () => {
    assert.deepStrictEqual(classified({ jobsHeld: 1 }), [
      "crashed",
      "Worker w-1 exited with code 0 without delivering the result."
    ])
    assert.deepStrictEqual(classified({ jobsHeld: 1, exit: exited(3) }), ["crashed", "Worker w-1 exited with code 3."])
    assert.deepStrictEqual(classified({ jobsHeld: 1, exitExpected: true, exit: killed("SIGSEGV") }), [
      "left",
      "Worker w-1 was killed by signal SIGSEGV."
    ])
    assert.deepStrictEqual(
      classified({ jobsHeld: 1, exitExpected: true, exit: killed("SIGKILL"), killReason: "Worker w-1 took too long." }),
      [
        "left",
        "Worker w-1 took too long."
      ]
    )
  })

  it("reports an exit before the first call as a failed start, with a remedy", () => {
    assert.deepStrictEqual(classified({ ready: false, exit: exited(1, ["no such module"]) }), [
      "failedStart",
      "Worker w-1 exited with code 1.\nIts last output:\n  no such module\n(end of output)"
    ])
    assert.match(
      String(classified({ ready: false })[1]),
      /exited with code 0 before it asked for a job\. A worker must call serverless\.start/
    )
    assert.deepStrictEqual(classified({ ready: false, exit: exited(1), unhealthy: "fitness check disk failed: 3 % left" }), [
      "failedStart",
      "Worker w-1 ended itself because it is unhealthy: fitness check disk failed: 3 % left."
    ])
  })

  it("mentions memory only when the exit suggests that it ran out", () => {
    assert.strictEqual(describeExit("w-1", exited(143)), "Worker w-1 exited with code 143 (128 + 15: signal SIGTERM).")
    assert.include(describeExit("w-1", killed("SIGKILL")), "If you did not kill it, the operating system may have")
    assert.strictEqual(
      describeExit("w-1", killed("SIGKILL", true)),
      "Worker w-1 was killed by signal SIGKILL. It was out of memory. Give it more, or fewer jobs at once."
    )
    assert.include(
      describeExit("w-1", killed("SIGKILL", true), 96 * 1024 ** 2),
      "It was out of memory. Its limit is 96 MiB. Give it more"
    )
    assert.include(describeExit("w-1", exited(134, ["FATAL ERROR: JavaScript heap out of memory"])), "It ran out of memory")
    assert.include(
      describeExit("w-1", killed("SIGTRAP")),
      "signal SIGTRAP. Node ends itself with this signal when the system refuses it"
    )
    assert.include(describeExit("w-1", exited(133)), "(128 + 5: signal SIGTRAP). Node ends itself")
    for (
      const line of [
        "# Fatal process out of memory: Zone",
        "# Fatal JavaScript OOM in Reached heap limit",
        "  code: 'ERR_MEMORY_ALLOCATION_FAILED'",
        "numpy.core._exceptions.MemoryError: Unable to allocate 8 GiB",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "memory allocation of 80000000 bytes failed",
        "fatal error: runtime: out of memory",
        "sh: 1: Cannot fork: Cannot allocate memory"
      ]
    ) {
      assert.include(
        describeExit("w-1", { _tag: "Killed", signal: "SIGTRAP", outOfMemory: false, log: [line] }),
        "signal SIGTRAP. It ran out of memory: give it more, or fewer jobs at once."
      )
    }
    assert.notInclude(describeExit("w-1", exited(1, ["torch: CUDA out of memory. Tried to allocate 2 GiB"])), "ran out of memory")
    assert.strictEqual(describeExit("w-1", exited(1)), "Worker w-1 exited with code 1.")
    assert.strictEqual(
      describeExit("w-1", { _tag: "Lost", reason: "its machine is gone.", log: [] }),
      "Worker w-1 is gone: its machine is gone."
    )
    assert.strictEqual(withLastOutput("Gone.", []), "Gone.")
  })

  it("describes an exit in a complete first line, which summaries show alone", () =>
    assert.strictEqual(withLastOutput("Gone.", ["one", "two"]).split("\n")[0], "Gone."))
})

describe("summaryOfExit", () => {
  const summary = (...log: ReadonlyArray<string>) => summaryOfExit(withLastOutput("It exited with code 1.", log))

  it("adds the last error message that the worker printed, or else its last line", () => {
    assert.strictEqual(
      summary(
        "/models.ts:3",
        "throw new Error(`no model at ${path}`)",
        "      ^",
        "",
        "Error: no model at /models",
        "    at load (/models.ts:3:9)",
        "",
        "Node.js v26"
      ),
      "It exited with code 1. It printed: Error: no model at /models"
    )
    assert.strictEqual(
      summary("KeyError: 'a'", "During handling of the above exception:", "  raise ValueError", "app.errors.LoadException: b"),
      "It exited with code 1. It printed: app.errors.LoadException: b"
    )
    assert.strictEqual(summary("usage: worker PORT", ""), "It exited with code 1. It printed: usage: worker PORT")
    assert.strictEqual(summary("", " "), "It exited with code 1.")
    assert.strictEqual(summary(), "It exited with code 1.")
  })

  it("adds nothing to other texts, and does not fail for a text that was cut", () => {
    assert.strictEqual(summaryOfExit("Attempt 1 failed.\nError: no model"), "Attempt 1 failed.")
    assert.strictEqual(summaryOfExit("It exited.\nIts last output:\n  Error: a\n  Err"), "It exited. It printed: Error: a")
    assert.strictEqual(summaryOfExit(""), "")
  })
})

describe("LogTail", () => {
  it("keeps the report that memory ran out before a long stack trace", () => {
    const tail = make()
    const report = "FATAL ERROR: Ineffective mark-compacts near heap limit Allocation failed - JavaScript heap out of memory"
    tail.add("working")
    tail.add(report)
    for (let index = 1; index < 60; index++) {
      tail.add(`${index}: 0x2017c23 v8::platform::DefaultJobHandle::Join() [/usr/bin/node]`)
    }
    const lines = tail.lines()
    assert.strictEqual(lines[0], report)
    assert.isAtMost(lines.length, 20)
    assert.isAtMost(lines.join("").length, 2_000)
    assert.match(lines.at(-1) ?? "", /^59: /)
    assert.include(describeExit("w-1", exited(134, lines)), "It ran out of memory")
    for (let index = 0; index < 60; index++) tail.add("working again")
    assert.notInclude(tail.lines(), report)
  })

  it("keeps the end of a long line, where a stack trace in JSON has its message", () => {
    const tail = make()
    const trace = Array.from({ length: 20 }, (_, index) => `File \\"/app/${index}.py\\", line ${index}, in run`).join("\\n")
    tail.add(`{"requestId": null, "message": "${trace}\\nTypeError: unexpected argument", "level": "ERROR"}`)
    const [line = ""] = tail.lines()
    assert.strictEqual(line.length, 500)
    assert.match(line, /^\{"requestId": null, "message": "File .*TypeError: unexpected argument", "level": "ERROR"\}$/)
  })

  it("keeps the last lines within its limits, for any output", () =>
    fc.assert(fc.property(fc.array(fc.string({ maxLength: 80 })), fc.integer({ min: 1, max: 5 }), (lines, max) => {
      const tail = make({ lines: max, characters: 60, lineCharacters: 40 })
      for (const line of lines) tail.add(line)
      const kept = tail.lines()
      assert.isAtMost(kept.length, max)
      assert.isAtMost(kept.join("").length, 60)
      const cut = lines.map((line) => line.length > 40 ? `${line.slice(0, 9)}...${line.slice(-28)}` : line)
      assert.deepStrictEqual(kept, cut.slice(cut.length - kept.length))
      if (lines.length > 0) assert.isAtLeast(kept.length, 1)
    })))
})
