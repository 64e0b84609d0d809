import { EndpointId, JobId } from "@stint/contract/Ids"
import { type JsonText, toJsonText } from "@stint/contract/Json"
import type { EntryKind } from "@stint/contract/RunJournal"
import * as RunMachine from "@stint/store/RunMachine"
import { describe, expect, it } from "vitest"

const run: RunMachine.RunRecord = RunMachine.begun({
  run: JobId.make("run"),
  endpoint: EndpointId.make("red"),
  definition: "a".repeat(64),
  undo: false
})

let last = 0
const entry = (
  path: string,
  kind: EntryKind,
  body: unknown = null,
  rest: Partial<RunMachine.RunEntry> = {}
): RunMachine.RunEntry => ({
  path,
  kind,
  n: ++last,
  at: 1_000,
  body: body === null ? null : toJsonText(body),
  ms: null,
  input: null,
  until: null,
  isOpen: false,
  news: 0,
  ...rest
})

const text = (body: JsonText): unknown => JSON.parse(body)

describe("a run's journal", () => {
  it("numbers entries from 1, and fills in what an entry does not have", () => {
    const first = RunMachine.appended(run, { path: "a", kind: "step", body: toJsonText(1) }, 5)
    expect(first).toEqual({
      run: { ...run, last: 1 },
      entry: { path: "a", kind: "step", n: 1, at: 5, body: "1", ms: null, input: null, until: null, isOpen: false, news: 0 }
    })
    const given = { ms: 7, input: toJsonText("in"), until: 99, isOpen: true, news: 2 } as const
    const second = RunMachine.appended(first.run, { path: "b", kind: "wait", body: null, ...given }, 6)
    expect(second.run.last).toBe(2)
    expect(second.entry).toEqual({ path: "b", kind: "wait", n: 2, at: 6, body: null, ...given })
  })

  it.each(
    [
      ["spawn", ["spawn", "sleep", "wait"], true],
      ["sleep", ["sleep", "spawn", "wait"], true],
      ["wait", ["wait", "spawn", "sleep"], true],
      ["step", ["step"], true],
      ["failed", ["failed"], true],
      ["event", ["event"], true],
      ["end", ["end"], true],
      ["choice", ["choice"], false],
      ["undo", ["undo"], false]
    ] as const
  )("opens and settles each path once: an earlier entry that wins over %s", (kind, kinds, settles) => {
    expect(RunMachine.winningKinds(kind)).toEqual({ kinds, settles })
  })
})

describe("a parked run", () => {
  it("wakes when as many entries have arrived as it waits for, and at once for an urgent one", () => {
    const waiting = { ...run, wanted: 2 }
    const one = RunMachine.arrived(waiting, 1)
    expect(one).toEqual({ run: { ...run, wanted: 1 }, wakes: false })
    expect(RunMachine.arrived(one.run, 1)).toEqual({ run: { ...run, wanted: 0 }, wakes: true })
    expect(RunMachine.arrived(waiting, 2)).toEqual({ run: { ...run, wanted: 0 }, wakes: true })
    expect(RunMachine.arrived({ ...run, wanted: 0 }, 1).run.wanted).toBe(0)
  })

  it("does not wake while it waits for a worker with another definition", () => {
    expect(RunMachine.arrived({ ...run, wanted: 1, held: "another definition" }, 2).wakes).toBe(false)
  })

  it("has counted the entries that its worker has not seen, and does not park if these are enough or urgent", () => {
    expect(RunMachine.parked(run, 3, { count: 0, urgent: false })?.wanted).toBe(3)
    expect(RunMachine.parked(run, 3, { count: 2, urgent: false })?.wanted).toBe(1)
    expect(RunMachine.parked(run, 3, { count: 3, urgent: false })).toBeUndefined()
    expect(RunMachine.parked(run, 3, { count: 4, urgent: false })).toBeUndefined()
    expect(RunMachine.parked(run, 3, { count: 0, urgent: true })).toBeUndefined()
  })
})

describe("the entry that settles a path", () => {
  const child = { id: JobId.make("child"), endpoint: EndpointId.make("blue") }

  it("has the status of the child, and its error if it has one; only a success is not urgent", () => {
    const ended = RunMachine.childEnd({ ...child, status: "COMPLETED" }, null)
    expect(text(ended.body)).toEqual({ status: "COMPLETED", job: "child", endpoint: "blue" })
    expect(ended.news).toBe(1)
    const failed = RunMachine.childEnd({ ...child, status: "FAILED" }, "broken")
    expect(text(failed.body)).toEqual({ status: "FAILED", job: "child", endpoint: "blue", error: "broken" })
    expect(failed.news).toBe(2)
  })

  it("says that a wait has timed out, but not that a sleep has", () => {
    expect(text(RunMachine.timerEnd("sleep"))).toEqual({})
    expect(text(RunMachine.timerEnd("wait"))).toEqual({ status: "TIMED_OUT" })
    expect(text(RunMachine.timerEnd("spawn"))).toEqual({ status: "TIMED_OUT" })
  })

  it("is read by name, whatever its body is", () => {
    expect(RunMachine.memberOf(entry("a", "end", { status: "FAILED" }), "status")).toBe("FAILED")
    expect(RunMachine.memberOf(entry("a", "end", { status: 1 }), "status")).toBeUndefined()
    expect(RunMachine.memberOf(entry("a", "end", "status"), "length")).toBeUndefined()
    expect(RunMachine.memberOf(entry("a", "end"), "status")).toBeUndefined()
    expect(RunMachine.memberOf({ body: toJsonText(null) }, "status")).toBeUndefined()
  })

  it("is compared with a definition without its body, unless it is a choice", () => {
    const { kind, path } = entry("a", "step")
    expect(RunMachine.comparable({ path, kind, body: toJsonText({ large: true }) })).toEqual({ path, kind })
    const choice = { path, kind: "choice", body: toJsonText({ branch: "zip" }) } as const
    expect(RunMachine.comparable(choice)).toEqual({ path, kind: "choice", body: { branch: "zip" } })
    expect(RunMachine.comparable({ ...choice, body: null })).toEqual({ path, kind: "choice" })
  })
})

/** first, then extras with the parts cover (draw, print) and index (sort), then last. */
const graph = {
  nodes: [
    "first",
    "extras",
    "extras.cover.draw",
    "extras.cover.print",
    "extras.index.sort",
    "last"
  ].map((address) => ({ address }))
}

const paths = (entries: ReadonlyArray<RunMachine.RunEntry> | undefined) => entries?.map(({ kind, path }) => `${path} ${kind}`)

describe("a retry of a run", () => {
  const forgotten = (entries: ReadonlyArray<RunMachine.RunEntry>, from?: string, onlyFrom?: boolean) =>
    paths(RunMachine.forgotten(entries, graph, from, onlyFrom))

  it("repeats what failed and what was not settled, and keeps the rest", () => {
    const entries = [
      entry("first", "step", 1),
      entry("extras.cover.draw", "failed", { error: "broken" }),
      entry("extras.index.sort", "spawn", null, { isOpen: true }),
      entry("last[0]", "spawn"),
      entry("last[0]", "end", { status: "COMPLETED" }),
      entry("last[1]", "spawn"),
      entry("last[1]", "end", { status: "FAILED" }),
      entry("last[2]", "spawn"),
      entry("last[2]", "end", {})
    ]
    expect(forgotten(entries)).toEqual([
      "extras.cover.draw failed",
      "extras.index.sort spawn",
      "last[1] spawn",
      "last[1] end"
    ])
  })

  it("keeps the choice and the compensation of a path that failed", () => {
    const entries = [
      entry("first", "choice", { branch: "a" }),
      entry("first", "undo", 1),
      entry("first", "failed", { error: "broken" })
    ]
    expect(forgotten(entries)).toEqual(["first failed"])
  })

  it("waits again for an event that the pipeline could not read", () => {
    const unread = [entry("first", "event", "not what it expects"), entry("first~0", "failed", { error: "unreadable" })]
    expect(forgotten(unread)).toEqual(["first event", "first~0 failed"])
    // Only the event of that path, and only after a failure of the run itself.
    expect(forgotten([entry("first", "event", 1), entry("last", "event", 2), entry("last~0", "failed")])).toEqual([
      "last event",
      "last~0 failed"
    ])
    expect(forgotten([entry("first", "event", 1), entry("first~0", "step", 1)])).toEqual([])
    expect(forgotten([entry("first", "step", 1), entry("first~0", "failed")])).toEqual(["first~0 failed"])
    expect(forgotten([entry("first", "event", 1), entry("first~01", "failed")])).toEqual(["first~01 failed"])
    expect(forgotten([entry("first", "event", 1), entry("x~first~0", "failed")])).toEqual(["x~first~0 failed"])
  })

  const all = [
    entry("first", "step", 1),
    entry("extras.cover.draw", "step", 1),
    entry("extras.cover.print", "step", 1),
    entry("extras.index.sort", "step", 1),
    entry("last[0]", "step", 1),
    entry("~cancel", "step")
  ]

  it.each<readonly [from: string, ReadonlyArray<string>]>([
    ["first", ["first", "extras.cover.draw", "extras.cover.print", "extras.index.sort", "last[0]"]],
    ["extras", ["extras.cover.draw", "extras.cover.print", "extras.index.sort", "last[0]"]],
    ["extras.cover.draw", ["extras.cover.draw", "extras.cover.print", "last[0]"]],
    ["extras.cover.print", ["extras.cover.print", "last[0]"]],
    ["extras.index.sort", ["extras.index.sort", "last[0]"]],
    ["last", ["last[0]"]]
  ])("from %s repeats that node, what is in it, and what comes after it in its part and around it", (from, again) => {
    expect(forgotten(all, from)).toEqual(again.map((path) => `${path} step`))
  })

  it("from a node also repeats what failed before it, unless the run has not ended", () => {
    const entries = [entry("first", "failed", { error: "broken" }), ...all]
    expect(forgotten(entries, "last")).toEqual(["first failed", "first step", "last[0] step"])
    expect(forgotten(entries, "last", true)).toEqual(["last[0] step"])
    expect(forgotten(entries, undefined, true)).toEqual([])
  })

  it("from a node that the graph does not have is refused", () => {
    expect(forgotten(all, "absent")).toBeUndefined()
    expect(RunMachine.forgotten(all, undefined, "first")).toBeUndefined()
    expect(RunMachine.forgotten(all, undefined, undefined)).toEqual([])
  })
})
