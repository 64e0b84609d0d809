import { expect, it } from "vitest"
import { format } from "../src/commands/TopCommand.ts"

const endpoint = (name: string, completed: number, unhealthy = 0) => ({
  endpoint: name,
  jobs: { completed, failed: 0, inProgress: 1, inQueue: 2, retried: 0 },
  workers: { idle: 0, initializing: 0, ready: 0, running: 1, throttled: 0, unhealthy }
})

it("the table of stint top shows endpoints with problems first, and the ended jobs per second", () => {
  const before = { at: 1_000, endpoints: [endpoint("calm", 10), endpoint("ill", 5)] }
  const now = { at: 3_000, endpoints: [endpoint("calm", 13), endpoint("ill", 5, 1)] }
  const [, first = "", second = ""] = format(now, before).split("\n")
  expect(first.split(/ +/)).toEqual(["ill", "2", "1", "0.0", "0", "0", "1", "0", "0", "1"])
  expect(second.split(/ +/)).toEqual(["calm", "2", "1", "1.5", "0", "0", "1", "0", "0", "0"])
  expect(format(now, undefined)).toContain("-")
})
