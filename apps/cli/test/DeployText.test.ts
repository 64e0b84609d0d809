/**
 * What `stint deploy`, `stint releases` and `stint rollback` print about changes.
 */
import { type Endpoint, EndpointSpec } from "@stint/contract/Endpoint"
import type { Release, ReleasePreview } from "@stint/contract/Release"
import { SecretName } from "@stint/contract/Secret"
import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import { changeLines, summaryOf } from "../src/deploy/ChangeText.ts"
import * as DeployPlan from "../src/deploy/DeployPlan.ts"
import { isSecret, MASK, maskChange, maskEnv } from "../src/deploy/HiddenVariables.ts"
import { changesBetween, replacedBy, rollbackTarget } from "../src/deploy/ReleaseHistory.ts"
import { isYes } from "../src/output/Confirm.ts"

const A = "a".repeat(64)
const B = "b".repeat(64)

const specOf = (rest: object = {}) =>
  Schema.decodeUnknownSync(EndpointSpec)({ id: "words", source: { type: "handler", file: "/app/handler.ts" }, ...rest })

const noCode: ReleasePreview["code"] = { added: [], removed: [], changed: [] }

const releaseOf = (number: number, rest: Partial<Release> = {}): Release => {
  const settings = specOf()
  return { endpoint: settings.id, number, createdAt: 0, createdBy: "configuration", settings, state: "superseded", ...rest }
}

describe("the changes of a deployment", () => {
  it("are one line per setting and file, with the value before and after", () => {
    const lines = changeLines({
      settings: [
        { path: "env", before: {} },
        { path: "env.LOG_LEVEL", after: "debug" },
        { path: "env.OLD", before: "x" },
        { path: "workers.max", before: 3, after: 5 }
      ],
      code: { before: A, after: B, added: ["stop-words.ts"], removed: ["old.ts"], changed: ["words.ts"] }
    })
    expect(lines).toEqual([
      "  + env.LOG_LEVEL  \"debug\"",
      "  - env.OLD        \"x\"",
      "  ~ workers.max    3 -> 5",
      "  code aaaaaaaaaaaa -> bbbbbbbbbbbb",
      "    ~ words.ts",
      "    + stop-words.ts",
      "    - old.ts"
    ])
  })

  it("say when only an imported package differs, and nothing about code that does not differ", () => {
    expect(changeLines({ settings: [], code: { ...noCode, before: A, after: B } })).toEqual([
      "  code aaaaaaaaaaaa -> bbbbbbbbbbbb (only packages that it imports)"
    ])
    expect(changeLines({ settings: [], code: { ...noCode, before: A, after: A } })).toEqual([])
    expect(changeLines({ settings: [], code: noCode })).toEqual([])
  })

  it("hide the values of variables that are secrets, and still say that they differ", () => {
    const text = changeLines({
      settings: [
        { path: "env.API_TOKEN", before: "hunter2", after: "hunter3" },
        { path: "env.DATABASE", before: "none", after: "postgres://ada:hunter4@db/orders" },
        { path: "env.NEW_SECRET", after: "hunter5" }
      ],
      code: noCode
    }).join("\n")
    expect(text).not.toContain("hunter")
    expect(text).toBe(
      `  ~ env.API_TOKEN   ${MASK} (changed)\n  ~ env.DATABASE    ${MASK} (changed)\n  + env.NEW_SECRET  ${MASK}`
    )
  })

  it("cannot start a line or control the terminal through the text of a setting", () => {
    const [line = ""] = changeLines({ settings: [{ path: "env.A\nB", after: "c\u001b[2Jd\ne" }], code: noCode })
    expect(line).not.toContain("\n")
    expect(line).not.toContain("\u001b")
  })

  it("fit into a few words for a list", () => {
    const settings = ["a", "b", "c", "d", "e"].map((path) => ({ path, after: 1 }))
    expect(summaryOf({ settings, code: noCode })).toBe("a, b, c, 2 more")
    expect(summaryOf({ settings: [], code: { ...noCode, before: A, after: B, changed: ["x"] } })).toBe("1 file")
    expect(summaryOf({ settings: [], code: { ...noCode, before: A, after: B } })).toBe("code")
    expect(summaryOf({ settings: [], code: noCode })).toBe("nothing")
  })
})

describe("secrets in variables", () => {
  it.each([
    "API_KEY",
    "apiKey",
    "GITHUB_TOKEN",
    "PGPASSWORD",
    "DB_PASS",
    "AWS_SECRET_ACCESS_KEY",
    "OPENAI_APIKEY",
    "SENTRY_DSN",
    "authToken"
  ])(
    "are recognized by the name %s",
    (name) => expect(isSecret(name, "x")).toBe(true)
  )

  it.each(["KEYBOARD", "MONKEY", "AUTHOR", "LOG_LEVEL", "PASSENGERS", "COMPASS", "MAX_RETRIES"])(
    "are not guessed from the name %s",
    (name) => expect(isSecret(name, "https://example.com:8080/a@b")).toBe(false)
  )

  it("are hidden in settings", () => {
    const reference = { secret: SecretName.make("hub-token") }
    expect(maskEnv({ env: { TOKEN: reference } }).env).toEqual({ TOKEN: reference })
    expect(maskChange({ path: "env.TOKEN.secret", after: "hub-token" })).toEqual({ path: "env.TOKEN.secret", after: "hub-token" })
    expect(maskChange({ path: "env.TOKEN", before: "x" })).toEqual({ path: "env.TOKEN", before: MASK })
    expect(maskEnv({ env: { TOKEN: "x", LOG: "y", URL: "redis://:pw@cache" } }).env).toEqual({ TOKEN: MASK, LOG: "y", URL: MASK })
  })
})

describe("the plan of a deployment", () => {
  const spec = specOf({ workers: { max: 5 }, env: { API_TOKEN: "hunter2" } })
  const settings: ReleasePreview["settings"] = [
    { path: "env.API_TOKEN", after: "hunter2" },
    { path: "leaseMs", after: spec.leaseMs },
    { path: "source.file", after: "/app/handler.ts" },
    { path: "source.type", after: "handler" },
    { path: "workers.max", after: 5 }
  ]
  const created: DeployPlan.Deployment = {
    action: "create",
    id: "words",
    spec,
    preview: { settings, code: { ...noCode, after: A, added: ["handler.ts"] }, changes: true }
  }
  const changed: DeployPlan.Deployment = {
    action: "change",
    id: "letters",
    spec,
    preview: { active: 3, settings: [{ path: "workers.max", before: 3, after: 5 }], code: noCode, changes: true }
  }
  const same: DeployPlan.Deployment = {
    action: "none",
    id: "numbers",
    spec,
    preview: { active: 2, settings: [], code: noCode, changes: false }
  }

  it("names what stays first, and shows only the non-default settings of a new endpoint", () => {
    const plan = { deployments: [created, changed, same], leftovers: [{ action: "keep" as const, id: "old" }] }
    expect(DeployPlan.isEmpty(plan)).toBe(false)
    expect(DeployPlan.format(plan)).toBe([
      "numbers  no changes (release 2)",
      "old  not in the configuration: it is kept (--remove removes it)",
      "",
      "words  new",
      `  + env.API_TOKEN  ${MASK}`,
      "  + source.file    \"/app/handler.ts\"",
      "  + source.type    \"handler\"",
      "  + workers.max    5",
      "  code aaaaaaaaaaaa",
      "    + handler.ts",
      "",
      "letters  at release 3",
      "  ~ workers.max  3 -> 5"
    ].join("\n"))
  })

  it("is empty when nothing differs, unless an endpoint is removed", () => {
    expect(DeployPlan.isEmpty({ deployments: [same], leftovers: [{ action: "keep", id: "old" }] })).toBe(true)
    expect(DeployPlan.isEmpty({ deployments: [same], leftovers: [{ action: "remove", id: "old" }] })).toBe(false)
  })

  it("hides secrets from JSON", () => {
    const json = JSON.stringify(DeployPlan.toJson({ deployments: [created], leftovers: [{ action: "remove", id: "old" }] }))
    expect(json).not.toContain("hunter")
    expect(json).toContain("\"action\":\"create\"")
    expect(json).toContain("{\"endpoint\":\"old\",\"action\":\"remove\"}")
  })
})

describe("the history of releases", () => {
  const releases = [
    releaseOf(5, { state: "failed", reason: "no" }),
    releaseOf(4, { state: "active", activatedAt: 4, settings: specOf({ maxAttempts: 5 }) }),
    releaseOf(3, { state: "failed", reason: "no" }),
    releaseOf(2, { activatedAt: 2, code: { hash: A, files: [] } })
  ]
  const [five, four] = releases
  const at = (release: number, previousRelease?: number): Pick<Endpoint, "release" | "previousRelease"> => ({
    release,
    ...(previousRelease === undefined ? {} : { previousRelease })
  })

  it("compares a release with the last one before it that was active", () => {
    expect(five && replacedBy(releases, five)?.number).toBe(4)
    expect(four && replacedBy(releases, four)?.number).toBe(2)
    expect(four && changesBetween(replacedBy(releases, four), four)).toEqual({
      settings: [{ path: "maxAttempts", before: 2, after: 5 }],
      code: { ...noCode, before: A }
    })
  })

  it("returns to the last release that was active, and during a rollout to the serving one", () => {
    expect(rollbackTarget(releases, at(4))?.number).toBe(2)
    expect(rollbackTarget(releases, at(5, 4))?.number).toBe(4)
    expect(rollbackTarget(releases, at(2))).toBeUndefined()
  })
})

it("only y and yes confirm a change", () => {
  expect(["y", "Y", " yes ", "YES"].every(isYes)).toBe(true)
  expect(["", "n", "no", "yep", "yes please", "1"].some(isYes)).toBe(false)
})
