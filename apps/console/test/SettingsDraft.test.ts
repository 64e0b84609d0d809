import { Endpoint, EndpointSpec } from "@stint/contract/Endpoint"
import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import {
  currentOf,
  type SettingsDraft,
  settingsDraftOf,
  settingsSpecOf,
  type TextSetting
} from "../src/endpoints/SettingsDraft.ts"

const specOf = Schema.decodeUnknownSync(EndpointSpec)

/** An endpoint with settings that the form does not show, and with members that a spec does not have. */
const endpoint = (spec: object = {}): Endpoint =>
  Schema.decodeUnknownSync(Endpoint)({
    id: "hello",
    source: { type: "handler", file: "./hello.ts", cpus: 2 },
    workers: { min: 1, max: 4, warm: [{ start: "0 8 * * *", end: "0 18 * * *", min: 3 }] },
    env: { TOKEN: "t", KEY: { secret: "key" } },
    rateLimit: { limit: 3, perMs: 1_000 },
    ...spec,
    createdAt: 1,
    release: 4,
    previousRelease: 3,
    canary: { release: 5, percent: 10 }
  })

const edited = (change: Partial<SettingsDraft>, from: Endpoint = endpoint()) =>
  settingsSpecOf({ ...settingsDraftOf(from), ...change }, from)

describe("the settings of an endpoint in the form", () => {
  it("are the same spec when no field is changed", () => {
    const spec = currentOf(endpoint())
    expect(edited({})).toEqual({ spec })
    expect(spec).toEqual(specOf(spec))
    for (const member of ["canary", "createdAt", "previousRelease", "release"]) expect(spec).not.toHaveProperty(member)
  })

  it("keep a variable that the endpoint has, whatever its name", () => {
    const from = endpoint({ env: { "my-city.1": "Bern" } })
    expect(edited({}, from)).toEqual({ spec: currentOf(from) })
  })

  it("change only in the fields that were edited", () => {
    const unchanged = edited({})
    const changed = edited({ max: "9", idleSeconds: "2.5", scaler: "REQUEST_COUNT", scalerValue: "20" })
    if (!("spec" in unchanged) || !("spec" in changed)) throw new Error("the fields are valid")
    expect(changed.spec).toEqual({
      ...unchanged.spec,
      workers: { ...unchanged.spec.workers, max: 9, idleTimeoutMs: 2_500 },
      scaler: { type: "REQUEST_COUNT", value: 20 }
    })
  })

  it("keep a maximum for callers above the value, and move one that was the value", () => {
    const limitsOf = (change: Partial<SettingsDraft>, from?: Endpoint) => {
      const result = edited(change, from)
      return "spec" in result ? result.spec.limits.executionTimeoutMs : result
    }
    const implied = endpoint({ executionTimeoutMs: 5_000, limits: { executionTimeoutMs: 5_000 } })
    expect(limitsOf({ executionSeconds: "60" }, implied)).toBe(60_000)
    const higher = endpoint({ executionTimeoutMs: 5_000, limits: { executionTimeoutMs: 30_000 } })
    expect(limitsOf({ executionSeconds: "10" }, higher)).toBe(30_000)
    expect(limitsOf({ executionSeconds: "60" }, higher)).toBe(60_000)
  })

  it("add, change and remove what an endpoint need not have", () => {
    const specWith = (change: Partial<SettingsDraft>, from?: Endpoint) => {
      const result = edited(change, from)
      if (!("spec" in result)) throw new Error(JSON.stringify(result.problems))
      expect(result.spec).toEqual(specOf(result.spec))
      return result.spec
    }
    const added = specWith({
      waitingJobs: "500",
      concurrencyKey: "input.customer",
      concurrencyLimit: "2",
      rateCalls: "10",
      rateSeconds: "60",
      variables: [{ name: "CITY", kind: "value", value: "Zürich\nBern" }, { name: "TOKEN", kind: "secret", value: "hub-token" }]
    })
    expect(added).toMatchObject({
      limits: { waitingJobs: 500 },
      concurrency: { key: "input.customer", limit: 2 },
      rateLimit: { limit: 10, perMs: 60_000 }
    })
    expect(added.env).toEqual({ CITY: "Zürich\nBern", TOKEN: { secret: "hub-token" } })
    const limited = endpoint({
      limits: { waitingJobs: 3, priority: 7 },
      concurrency: { key: "one", limit: 1 },
      rateLimit: { limit: 3, perMs: 1_000, concurrent: 2 }
    })
    expect(specWith({ rateCalls: "4" }, limited).rateLimit).toEqual({ limit: 4, perMs: 1_000, concurrent: 2 })
    const none = { waitingJobs: "", concurrencyKey: "", concurrencyLimit: "", rateCalls: "", rateSeconds: "", variables: [] }
    const removed = specWith(none, limited)
    expect(removed).not.toHaveProperty("concurrency")
    expect(removed).not.toHaveProperty("rateLimit")
    expect(removed.limits).not.toHaveProperty("waitingJobs")
    expect(removed.limits.priority).toBe(7)
    expect(removed.env).toEqual({})
  })

  it("say what is wrong with each variable", () => {
    const variable = (name: string, kind: "value" | "secret" = "value", value = "") => ({ name, kind, value })
    const variables = [
      variable("CITY"),
      variable("CITY"),
      variable("2CITY"),
      variable(""),
      variable("A-B"),
      variable("KEY", "secret"),
      variable("_key2", "secret", "key")
    ]
    const result = edited({ variables })
    const name = "Write a name of letters, digits and _, which does not begin with a digit."
    expect("problems" in result && result.problems.variables).toEqual([
      undefined,
      "Another variable has this name.",
      name,
      name,
      name,
      "Write the name of a secret.",
      undefined
    ])
  })

  it.each<[Partial<SettingsDraft>, TextSetting, string]>([
    [{ waitingJobs: "0" }, "waitingJobs", "whole number from 1"],
    [{ concurrencyKey: "input.customer" }, "concurrencyLimit", "both, or neither"],
    [{ concurrencyLimit: "3" }, "concurrencyKey", "both, or neither"],
    [{ rateCalls: "" }, "rateCalls", "both, or neither"],
    [{ rateSeconds: "" }, "rateSeconds", "both, or neither"],
    [{ rateSeconds: "0.5" }, "rateSeconds", "whole number from 1"],
    [{ min: "" }, "min", "whole number from 0"],
    [{ min: "1.5" }, "min", "whole number"],
    [{ min: "5" }, "min", "at most the maximum"],
    [{ min: "0", max: "2" }, "max", "at least 3"],
    [{ max: "10001" }, "max", "to 10000"],
    [{ idleSeconds: "-1" }, "idleSeconds", "from 0"],
    [{ scalerValue: "0" }, "scalerValue", "from 0.1"],
    [{ scaler: "REQUEST_COUNT", scalerValue: "0.5" }, "scalerValue", "from 1"],
    [{ executionSeconds: "4" }, "executionSeconds", "from 5"],
    [{ ttlSeconds: "x" }, "ttlSeconds", "from 10"],
    [{ maxAttempts: "0" }, "maxAttempts", "from 1"],
    [{ leaseSeconds: "0.5" }, "leaseSeconds", "from 1"],
    [{ retentionSeconds: "0" }, "retentionSeconds", "from 1"]
  ])("rejects %j, and says what to write", (change, field, says) => {
    expect(edited(change)).toEqual({ problems: { [field]: expect.stringContaining(says) } })
  })

  it("permit exactly what the platform permits at the ends of the ranges", () => {
    const low = edited({
      min: "0",
      max: "3",
      idleSeconds: "0",
      scalerValue: "0.1",
      executionSeconds: "5",
      ttlSeconds: "10",
      maxAttempts: "1",
      leaseSeconds: "1",
      retentionSeconds: "1"
    })
    const high = edited({
      min: "10000",
      max: "10000",
      idleSeconds: "3600",
      scalerValue: "3600",
      executionSeconds: "604800",
      ttlSeconds: "604800",
      maxAttempts: "100",
      leaseSeconds: "3600",
      retentionSeconds: "2592000"
    })
    for (const result of [low, high]) {
      if (!("spec" in result)) throw new Error(JSON.stringify(result))
      expect(specOf(result.spec)).toEqual(result.spec)
    }
    expect(edited({ leaseSeconds: "2" }, endpoint({ source: { type: "command", command: ["true"] } }))).toEqual({
      problems: { leaseSeconds: "Write a number from 3 to 3600." }
    })
  })
})
