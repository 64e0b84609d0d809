import { BuildSettings } from "@stint/contract/Build"
import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import { type BuildDraft, buildDraftOf, buildSettingsOf } from "../src/endpoints/BuildDraft.ts"

/** As the platform decodes a body. */
const settingsOf = Schema.decodeUnknownSync(BuildSettings, { onExcessProperty: "error" })

const REPOSITORY = "https://git.example.com/team/words.git"

/** Every setting. */
const whole = settingsOf({
  repository: REPOSITORY,
  ref: "main",
  dockerfile: "worker/Dockerfile",
  context: "worker",
  handler: "worker/handler.ts",
  baseImage: "node:26-slim",
  args: { CITY: "Zürich", "a.b-c": "" },
  secrets: { npm: "npm-token", CITY: "city" },
  credential: "deploy-key",
  webhookSecret: "hook",
  onPush: true,
  canary: { percent: 10, minJobs: 100, maxPoints: 2.5 },
  timeoutMs: 90_000
})

const edited = (change: Partial<BuildDraft>, from: BuildSettings | null = settingsOf({ repository: REPOSITORY })) =>
  buildSettingsOf({ ...buildDraftOf(from), ...change })

describe("the build settings in the form", () => {
  it("are the same settings when no field is changed", () => {
    expect(edited({}, whole)).toEqual({ settings: whole })
    expect(edited({})).toEqual({ settings: { repository: REPOSITORY } })
  })

  it("lose what is emptied, and are accepted by the platform", () => {
    const emptied = edited({ ref: " ", credential: "", canaryPercent: "", canaryJobs: "", canaryPoints: "", values: [] }, whole)
    if (!("settings" in emptied)) throw new Error("the fields are valid")
    for (const name of ["ref", "credential", "canary", "args", "secrets"]) expect(emptied.settings).not.toHaveProperty(name)
    expect(settingsOf(emptied.settings)).toEqual(emptied.settings)
  })

  it("have the platform's defaults for a canary of which only the share is written", () => {
    expect(edited({ canaryPercent: "20" })).toEqual({
      settings: settingsOf({ repository: REPOSITORY, canary: { percent: 20 } })
    })
  })

  it("say what is wrong with each field", () => {
    const problems = (change: Partial<BuildDraft>) => {
      const result = edited(change)
      return "problems" in result ? Object.keys(result.problems) : []
    }
    expect(edited({}, null)).toMatchObject({ problems: { repository: expect.stringContaining("https://HOST/PATH") } })
    for (
      const [field, value] of [
        ["repository", "words"],
        ["repository", "https://token@git.example.com/words.git"],
        ["context", "/worker"],
        ["dockerfile", "../Dockerfile"],
        ["handler", "a/../../b.ts"],
        ["credential", "two words"],
        ["webhookSecret", "-x"],
        ["canaryPercent", "51"],
        ["canaryPoints", "x"],
        ["timeoutMinutes", "0.1"]
      ] as const
    ) {
      const change: Partial<BuildDraft> = { canaryPercent: "10", [field]: value }
      expect(problems(change), `${field}: ${value}`).toEqual([field])
    }
    expect(problems({ canaryJobs: "10" })).toEqual(["canaryPercent"])
  })

  it("reject what the platform rejects", () => {
    for (
      const change of [
        { repository: "https://token@git.example.com/words.git" },
        { context: "../x" },
        { canary: { percent: 51 } },
        { timeoutMs: 6_000 },
        { args: { "1x": "" } }
      ]
    ) {
      const settings = { ...settingsOf({ repository: REPOSITORY }), ...change } as BuildSettings
      expect(() => settingsOf(settings), JSON.stringify(change)).toThrow()
      expect(buildSettingsOf(buildDraftOf(settings)), JSON.stringify(change)).toHaveProperty("problems")
    }
  })

  it("name the values that are wrong, and permit an argument and a secret with one name", () => {
    const values = [
      { name: "CITY", kind: "value", value: "Zürich" },
      { name: "CITY", kind: "secret", value: "city" },
      { name: "CITY", kind: "value", value: "Bern" },
      { name: "1x", kind: "value", value: "" },
      { name: "npm", kind: "secret", value: "two words" }
    ] as const
    expect(edited({ values })).toEqual({
      problems: {
        values: [
          undefined,
          undefined,
          "Another one has this name.",
          expect.stringContaining("letters, digits"),
          "Write the name of a secret."
        ]
      }
    })
    expect(edited({ values: values.slice(0, 2) })).toMatchObject({
      settings: { args: { CITY: "Zürich" }, secrets: { CITY: "city" } }
    })
  })
})
