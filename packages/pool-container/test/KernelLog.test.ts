import { assert, describe, it } from "@effect/vitest"
import { outOfMemory, reportsOutOfMemory } from "../src/KernelLog.ts"

const LINE = "4,812,38316087834,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=libpod-9ebf,mems_allowed=0," +
  "oom_memcg=/machine/libpod-9ebf,task_memcg=/machine/libpod-9ebf,task=node,pid=20574,uid=0"

describe("KernelLog", () => {
  it("recognizes the container whose memory ran out", () => {
    assert.isTrue(reportsOutOfMemory(LINE, "9ebf"))
    assert.isFalse(reportsOutOfMemory(LINE, "81b8"))
    assert.isFalse(reportsOutOfMemory(LINE.replace("CONSTRAINT_MEMCG", "CONSTRAINT_NONE"), "9ebf"))
  })

  it("finds nothing in a log that cannot be read", () => {
    assert.isFalse(outOfMemory("9ebf", "/dev/null"))
    assert.isFalse(outOfMemory("9ebf", "/no/such/file"))
  })
})
