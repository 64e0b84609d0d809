/**
 * The files of a new project: one typed endpoint with its test. Imports no package, so that other project generators can use it.
 *
 * | file | |
 * |---|---|
 * | `words.ts` | the handler |
 * | `handler.ts` | the program that workers run; separate, because a test must not start a worker |
 * | `words.test.ts` | its test |
 * | `test_input.json` | the job of `npm run once`, and of the curl line that `stint dev` prints |
 * | `stint.config.ts` | the endpoints |
 * | `pnpm-workspace.yaml` | settings for pnpm, which would otherwise stop at esbuild's install script; other package managers ignore it |
 */

import { SUPPORTED } from "../NodeVersion.ts"

/** The form of the handler: a function, or an Effect program with Schemas. */
export type Form = "function" | "effect"

/** Where the project's packages come from. */
export type PackageSource =
  | { readonly _tag: "Registry"; readonly version: string }
  /** A clone of the repository. `path`: from the project to the clone, with slashes. */
  | { readonly _tag: "Clone"; readonly path: string }

/** Third-party packages, with the versions that this version of Stint was tested with. */
export const VERSIONS = {
  "@effect/vitest": "^4.0.5",
  "@types/node": "^26.6.5",
  effect: "^4.1.0",
  typescript: "^7.0.2",
  vitest: "^5.1.1"
} as const

/** Stint's packages with their folders in a clone. */
const OWN_FOLDERS: Readonly<Record<string, string>> = {
  "@stint/cli": "apps/cli",
  "@stint/sdk": "packages/sdk",
  "@stint/worker": "packages/worker"
}

const dependenciesOf: Record<Form, ReadonlyArray<string>> = {
  function: ["@stint/sdk"],
  effect: ["@stint/worker", "effect"]
}

const devDependenciesOf: Record<Form, ReadonlyArray<string>> = {
  function: ["@stint/cli", "@types/node", "typescript", "vitest"],
  effect: ["@effect/vitest", "@stint/cli", "@types/node", "typescript", "vitest"]
}

const isVersioned = (name: string): name is keyof typeof VERSIONS => name in VERSIONS

const folderIn = (clone: string, name: string): string => `${clone}/${OWN_FOLDERS[name] ?? `node_modules/${name}`}`

/** npm's notation for a folder is `file:`, pnpm's is `link:`. */
const rangeOf = (name: string, source: PackageSource): string =>
  source._tag === "Clone"
    ? `file:${folderIn(source.path, name)}`
    : isVersioned(name)
    ? VERSIONS[name]
    : `^${source.version}`

const record = (names: ReadonlyArray<string>, value: (name: string) => string): Readonly<Record<string, string>> =>
  Object.fromEntries(names.map((name) => [name, value(name)]))

/** A clone contains the Node that its sources need, which the machine may lack. */
const devDependencies = (form: Form, source: PackageSource): ReadonlyArray<string> =>
  source._tag === "Clone" ? [...devDependenciesOf[form], "node"].toSorted() : devDependenciesOf[form]

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

const manifest = (name: string, form: Form, source: PackageSource): string =>
  json({
    name,
    version: "0.0.0",
    private: true,
    type: "module",
    scripts: {
      dev: "stint dev",
      once: "node handler.ts",
      start: "stint serve --config stint.config.ts",
      test: "vitest run",
      types: "tsc --noEmit"
    },
    dependencies: record(dependenciesOf[form], (one) => rangeOf(one, source)),
    devDependencies: record(devDependencies(form, source), (one) => rangeOf(one, source)),
    engines: { node: SUPPORTED }
  })

const pnpmSettings = (form: Form, source: PackageSource): string => {
  const builds = `allowBuilds:
  # Its binary comes in a package of its own.
  esbuild: false
`
  if (source._tag === "Registry") return builds
  const links = [...dependenciesOf[form], ...devDependencies(form, source)].map((name) =>
    `  "${name}": "link:${folderIn(source.path, name)}"`
  )
  return `# The clone's packages are linked: they are not published yet.
overrides:
${links.join("\n")}
${builds}`
}

/** For types as Node runs them: without a build step, and with file extensions in imports. */
const TSCONFIG = json({
  compilerOptions: {
    target: "ES2024",
    lib: ["ES2024", "ESNext.Disposable", "ESNext.AsyncIterable"],
    module: "NodeNext",
    types: ["node"],
    noEmit: true,
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    verbatimModuleSyntax: true,
    erasableSyntaxOnly: true,
    allowImportingTsExtensions: true,
    skipLibCheck: true
  },
  include: ["*.ts"]
})

const CONFIG = `import { defineConfig } from "@stint/cli"

export default defineConfig({
  endpoints: {
    words: { handler: "./handler.ts", workers: { max: 3, idleTimeout: "5 seconds" } }
  }
})
`

const GITIGNORE = `node_modules/
.stint/
*.log
`

const HANDLER: Record<Form, Readonly<Record<string, string>>> = {
  function: {
    "words.ts": `import { rp_validator } from "@stint/sdk"

/** Runs once per job. Code outside it runs once per worker: load models there. */
export const words = async (job: { readonly input: unknown }) => {
  const { errors, validated_input } = rp_validator.validate(job.input, { text: { type: "str", required: true } })
  if (errors) return { error: errors } // the job is FAILED
  const all = validated_input.text.split(/\\s+/).filter((word) => word !== "")
  return { count: all.length, longest: all.toSorted((a, b) => b.length - a.length)[0] ?? "" }
}
`,
    "handler.ts": `import { serverless } from "@stint/sdk"
import { words } from "./words.ts"

serverless.start({ handler: words })
`,
    "words.test.ts": `import { expect, it } from "vitest"
import { words } from "./words.ts"

it("counts the words and finds the longest", async () => {
  expect(await words({ input: { text: "to be or not to be" } })).toEqual({ count: 6, longest: "not" })
})

it("refuses an input without a text", async () => {
  expect(await words({ input: {} })).toHaveProperty("error")
})
`
  },
  effect: {
    "words.ts": `import { Handler } from "@stint/worker"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** Input that does not match the Schema fails the job, with the path of each invalid value. */
export const Words = Handler.make("words", {
  input: Schema.Struct({ text: Schema.String }),
  output: Schema.Struct({ count: Schema.Int, longest: Schema.String }),
  run: Effect.fn("words")(function*({ text }) {
    const all = text.split(/\\s+/).filter((word) => word !== "")
    yield* Effect.logInfo(\`\${all.length} words\`)
    return { count: all.length, longest: all.toSorted((a, b) => b.length - a.length)[0] ?? "" }
  })
})
`,
    "handler.ts": `import { Worker } from "@stint/worker"
import { Words } from "./words.ts"

// Layers are built once per worker: provide the handler's services here.
Worker.layer(Words).pipe(Worker.launch)
`,
    "words.test.ts": `import { expect, it } from "@effect/vitest"
import { WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import { Words } from "./words.ts"

it.effect("counts the words and finds the longest", () =>
  Effect.gen(function*() {
    const result = yield* WorkerTest.run(Words, { text: "to be or not to be" })
    expect(result.output).toEqual({ count: 6, longest: "not" })
  }))

it.effect("refuses an input without a text", () =>
  Effect.gen(function*() {
    expect((yield* WorkerTest.runJson(Words, {})).status).toBe("FAILED")
  }))
`
  }
}

const readme = (name: string): string =>
  `# ${name}

- \`npm install\`, once.
- \`npm run dev\` serves the endpoint \`words\` and reloads it on every save. It prints a \`curl\` line for a first job.
- \`npm test\` and \`npm run types\` check the handler.
- \`npm run once\` runs the handler once, with \`test_input.json\` and without a platform.
- \`npm start\` serves \`stint.config.ts\` with durable jobs in \`.stint/\`.

The handler is in \`words.ts\`; \`handler.ts\` is the program that a worker runs.
`

/** The files by name. */
export const projectFiles = (
  options: { readonly name: string; readonly form: Form; readonly source: PackageSource }
): Readonly<Record<string, string>> => ({
  "package.json": manifest(options.name, options.form, options.source),
  "tsconfig.json": TSCONFIG,
  "stint.config.ts": CONFIG,
  ...HANDLER[options.form],
  "test_input.json": `{ "input": { "text": "to be or not to be" } }\n`,
  "pnpm-workspace.yaml": pnpmSettings(options.form, options.source),
  ".gitignore": GITIGNORE,
  "README.md": readme(options.name)
})
