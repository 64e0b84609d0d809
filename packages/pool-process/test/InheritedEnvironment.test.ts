import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { inheritedEnvironment, WORKER_SETTINGS } from "../src/InheritedEnvironment.ts"
import { fresh, line, script, start, withPool } from "./TestProcesses.ts"

const valuesFor = <Name extends string>(...names: ReadonlyArray<Name>) =>
  Object.fromEntries(names.map((name) => [name, `value of ${name}`])) as { readonly [N in Name]: string }

/** Variables that an operator's shell or service file may contain. */
const SECRETS = valuesFor(
  "AWS_SECRET_ACCESS_KEY",
  "DATABASE_URL",
  "GITHUB_TOKEN",
  "NODE_AUTH_TOKEN",
  "RUNPOD_API_KEY",
  "RUNPOD_AI_API_KEY",
  "BUCKET_SECRET_ACCESS_KEY",
  "OTEL_EXPORTER_OTLP_HEADERS",
  "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
)

const OWN = valuesFor("PORT", "STINT_API_KEY", "STINT_DATA_DIR")

const NEEDED = valuesFor("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "NODE_OPTIONS", "https_proxy", "LD_LIBRARY_PATH")

describe("the environment that a worker inherits", () => {
  it("contains what programs need, and none of the platform's credentials and settings", () =>
    assert.deepStrictEqual(inheritedEnvironment({ ...NEEDED, ...SECRETS, ...OWN, NOTHING: undefined }), NEEDED))

  it("also contains the named variables, by name or by prefix, but never the platform's settings", () => {
    const { AWS_SECRET_ACCESS_KEY, BUCKET_SECRET_ACCESS_KEY, ...others } = SECRETS
    assert.deepStrictEqual(inheritedEnvironment({ ...SECRETS, ...OWN }, ["BUCKET_*", "AWS_SECRET_ACCESS_KEY", "STINT_API_KEY"]), {
      AWS_SECRET_ACCESS_KEY,
      BUCKET_SECRET_ACCESS_KEY
    })
    assert.hasAllKeys(inheritedEnvironment({ ...others, ...OWN, ...NEEDED }, ["*"]), [
      ...Object.keys(others),
      ...Object.keys(NEEDED)
    ])
  })

  it("ignores the case of names on Windows", () =>
    assert.deepStrictEqual(inheritedEnvironment({ Path: "C:\\", SystemRoot: "C:\\Windows", Secret: "x" }, [], true), {
      Path: "C:\\",
      SystemRoot: "C:\\Windows"
    }))

  it("contains every worker setting that the specification lists", () => {
    const page = readFileSync(new URL("../../../docs/spec/environment.md", import.meta.url), "utf8")
    const section = page.slice(page.indexOf("\n## Set by the user"), page.indexOf("\n## Other variables"))
    const rows = section.split("\n").filter((row) => row.startsWith("| `"))
    const listed = rows.flatMap((row) => [...(row.split("|")[1] ?? "").matchAll(/`(\w+)`/g)].map(([, name]) => name))
    assert.isAbove(listed.length, 10)
    assert.sameMembers(listed, [...WORKER_SETTINGS])
  })

  it.live("is all that a started worker sees, besides its own and its endpoint's variables", () =>
    Effect.gen(function*() {
      yield* Effect.acquireRelease(
        Effect.sync(() => Object.assign(process.env, SECRETS)),
        () => Effect.sync(() => Object.keys(SECRETS).forEach((name) => delete process.env[name]))
      )
      const mark = fresh("environment")
      const file = script(`console.log("${mark}", JSON.stringify(process.env))`)
      const seen = Effect.flatMap(start({ type: "handler", file }, { DATABASE_URL: "of the endpoint" }), ({ exit }) => exit)
      yield* withPool(seen, { inherit: ["GITHUB_*"] })
      const environment: unknown = JSON.parse(yield* line(`${mark} `))
      assert.deepInclude(environment, {
        DATABASE_URL: "of the endpoint",
        GITHUB_TOKEN: "value of GITHUB_TOKEN",
        PATH: process.env["PATH"]
      })
      const hidden = Object.entries(SECRETS).filter(([name]) => name !== "GITHUB_TOKEN").map(([, value]) => value)
      for (const value of hidden) assert.notInclude(JSON.stringify(environment), value)
    }).pipe(Effect.scoped))
})
