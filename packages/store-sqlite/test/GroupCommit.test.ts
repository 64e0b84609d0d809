import * as fc from "fast-check"
import { assert, describe, it } from "vitest"
import * as GroupCommit from "../src/GroupCommit.ts"

/** An in-memory database of numbers that can simulate disk faults. */
const numbers = () => {
  let committed: ReadonlyArray<number> = []
  let uncommitted: Array<number> | undefined
  const calls: Array<string> = []
  const failing = { begin: 0, commit: 0 }
  const transactions: GroupCommit.Transactions = {
    begin: () => {
      calls.push("begin")
      if (failing.begin-- > 0) throw new Error("cannot begin")
      assert.isUndefined(uncommitted, "a transaction within a transaction")
      uncommitted = [...committed]
    },
    commit: () => {
      calls.push("commit")
      if (failing.commit-- > 0) throw new Error("cannot commit")
      committed = uncommitted ?? assert.fail("commit without begin")
      uncommitted = undefined
    },
    rollback: () => {
      calls.push("rollback")
      uncommitted = undefined
    }
  }
  const add = (n: number) => () => {
    if (uncommitted === undefined) return assert.fail("a write outside of a transaction")
    if (n < 0) throw new Error(`${n} is negative`)
    uncommitted.push(n)
    return n
  }
  return { add, calls, committed: () => committed, failing, transactions }
}

const run = (group: GroupCommit.GroupCommit, command: () => number) =>
  new Promise<GroupCommit.CommandResult<number>>((resolve) => group.submit(command, resolve))

const all = (group: GroupCommit.GroupCommit, commands: ReadonlyArray<() => number>) =>
  Promise.all(commands.map((command) => run(group, command)))

const causeOf = (settled: GroupCommit.CommandResult<number>) =>
  settled.ok ? undefined : settled.cause instanceof Error ? settled.cause.message : String(settled.cause)

describe("GroupCommit", () => {
  it("commits concurrent commands in one transaction, in order", async () => {
    const { add, calls, committed, transactions } = numbers()
    const sizes: Array<number> = []
    const group = GroupCommit.make(transactions, (commands) => sizes.push(commands))
    const settled = await all(group, [1, 2, 3, 4].map(add))
    assert.deepStrictEqual(settled, [1, 2, 3, 4].map((value) => ({ ok: true, value })))
    assert.deepStrictEqual(calls, ["begin", "commit"])
    assert.deepStrictEqual(committed(), [1, 2, 3, 4])
    assert.strictEqual(group.commits(), 1)
    await all(group, [add(5)])
    assert.strictEqual(group.commits(), 2)
    assert.deepStrictEqual(sizes, [4, 1])
  })

  it("settles no command before the commit", () => {
    const { add, committed, transactions } = numbers()
    const group = GroupCommit.make({
      ...transactions,
      commit: () => {
        assert.deepStrictEqual(told, [])
        transactions.commit()
      }
    })
    const told: Array<number> = []
    for (const n of [1, 2]) {
      group.submit(add(n), () => {
        assert.deepStrictEqual(committed(), [1, 2])
        told.push(n)
      })
    }
    assert.deepStrictEqual(told, [])
    group.flush()
    assert.deepStrictEqual(told, [1, 2])
  })

  it("fails only the command that throws", async () => {
    const { add, committed, transactions } = numbers()
    const settled = await all(GroupCommit.make(transactions), [1, -2, 3].map(add))
    assert.deepStrictEqual(settled.map(causeOf), [undefined, "-2 is negative", undefined])
    assert.deepStrictEqual(committed(), [1, 3])
  })

  it("acknowledges nothing while commits fail, and recovers", async () => {
    const { add, committed, failing, transactions } = numbers()
    const group = GroupCommit.make(transactions)
    failing.commit = 4
    const settled = await all(group, [1, 2, 3].map(add))
    assert.deepStrictEqual(settled.map(causeOf), ["cannot commit", "cannot commit", "cannot commit"])
    assert.deepStrictEqual(committed(), [])
    failing.commit = 1
    assert.deepStrictEqual((await all(group, [4, 5].map(add))).map((one) => one.ok), [true, true])
    assert.deepStrictEqual(committed(), [4, 5])
  })

  it("fails only the first command when a transaction cannot begin", async () => {
    const { add, committed, failing, transactions } = numbers()
    failing.begin = 1
    const settled = await all(GroupCommit.make(transactions), [1, 2].map(add))
    assert.deepStrictEqual(settled.map(causeOf), ["cannot begin", undefined])
    assert.deepStrictEqual(committed(), [2])
  })

  it("fails the commands of a transaction that is committed but not durable", async () => {
    const { add, committed, transactions } = numbers()
    const lost = new Error("the file is gone")
    let durable = false
    const group = GroupCommit.make({ ...transactions, confirm: () => durable ? undefined : lost })
    assert.deepStrictEqual((await all(group, [1, 2].map(add))).map(causeOf), ["the file is gone", "the file is gone"])
    durable = true
    assert.deepStrictEqual((await all(group, [3].map(add))).map((one) => one.ok), [true])
    // The database has all three: the first two are like writes whose response was lost.
    assert.deepStrictEqual(committed(), [1, 2, 3])
  })

  it("runs a transaction again after makeRoom has made room, even a single command", async () => {
    const { add, committed, failing, transactions } = numbers()
    let room = 1
    const group = GroupCommit.make({ ...transactions, makeRoom: () => room-- > 0 })
    failing.commit = 1
    assert.deepStrictEqual((await all(group, [add(1)])).map((one) => one.ok), [true])
    failing.begin = 1
    room = 1
    assert.deepStrictEqual((await all(group, [add(2)])).map((one) => one.ok), [true])
    failing.commit = 1
    assert.deepStrictEqual((await all(group, [add(3)])).map(causeOf), ["cannot commit"])
    assert.deepStrictEqual(committed(), [1, 2])
  })

  it("spreads many commands over several transactions and lets the event loop run in between", async () => {
    const { add, transactions } = numbers()
    const group = GroupCommit.make(transactions)
    const order: Array<string> = []
    const done = all(group, Array.from({ length: 600 }, (_, n) => add(n))).then(() => order.push("done"))
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
    order.push("turn")
    await done
    assert.deepStrictEqual(order, ["turn", "done"])
    assert.isAtLeast(group.commits(), 3)
  })

  it("adds no command to a slow transaction", async () => {
    const { add, transactions } = numbers()
    const group = GroupCommit.make(transactions)
    const slow = (n: number) => () => {
      const until = performance.now() + 10
      while (performance.now() < until);
      return add(n)()
    }
    await all(group, [1, 2, 3].map(slow))
    assert.strictEqual(group.commits(), 3)
  })

  it("allows a settled command to write and flush at once", () => {
    const { add, committed, transactions } = numbers()
    const group = GroupCommit.make(transactions)
    const told: Array<number> = []
    group.submit(add(1), () => {
      told.push(1)
      group.submit(add(3), () => told.push(3))
      group.flush()
    })
    group.submit(add(2), () => told.push(2))
    group.flush()
    assert.deepStrictEqual(committed(), [1, 2, 3])
    assert.deepStrictEqual(told, [1, 3, 2])
  })

  it("lets participants write before the commit and notifies them of each commit and rollback", async () => {
    const { add, calls, failing, transactions } = numbers()
    const group = GroupCommit.make(transactions)
    group.join({
      beforeCommit: () => calls.push("before"),
      committed: () => calls.push("committed"),
      rolledBack: () => calls.push("rolled back")
    })
    await all(group, [add(1)])
    failing.commit = 1
    await all(group, [add(2)])
    assert.deepStrictEqual(calls, [
      "begin",
      "before",
      "commit",
      "committed",
      "begin",
      "before",
      "commit",
      "rollback",
      "rolled back"
    ])
  })

  it("stores exactly the acknowledged commands in order, whatever fails", async () => {
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.record({ add: fc.integer({ min: -3, max: 20 }) }) },
      { weight: 1, arbitrary: fc.record({ begin: fc.integer({ min: 1, max: 3 }) }) },
      { weight: 1, arbitrary: fc.record({ commit: fc.integer({ min: 1, max: 3 }) }) },
      { weight: 1, arbitrary: fc.constant("pause" as const) }
    )
    await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 40, size: "max" }), async (steps) => {
      const { add, committed, failing, transactions } = numbers()
      const group = GroupCommit.make(transactions)
      const running: Array<Promise<GroupCommit.CommandResult<number>>> = []
      for (const step of steps) {
        if (step === "pause") await new Promise((resolve) => setImmediate(resolve))
        else if ("add" in step) running.push(run(group, add(step.add)))
        else Object.assign(failing, step)
      }
      const settled = await Promise.all(running)
      assert.deepStrictEqual(committed(), settled.flatMap((one) => (one.ok ? [one.value] : [])))
    }))
  })
})
