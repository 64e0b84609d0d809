/**
 * `stint init`: writes a project whose handler runs, and refuses folders with other files.
 */
import { execFile } from "node:child_process"
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { projectFiles, VERSIONS } from "../src/project/ProjectFiles.ts"
import { stint } from "./PlatformProcess.ts"

const run = promisify(execFile)

const CLONE = resolve(import.meta.dirname, "../../..")

const FILES = [
  ".gitignore",
  "README.md",
  "handler.ts",
  "package.json",
  "pnpm-workspace.yaml",
  "stint.config.ts",
  "test_input.json",
  "tsconfig.json",
  "words.test.ts",
  "words.ts"
]

describe("init", () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "stint-init-"))
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  for (const [form, flags] of [["function", []], ["effect", ["--effect"]]] as const) {
    it(`writes a project with a handler of the form "${form}" that runs`, async () => {
      const target = join(folder, form)
      const { code, stdout } = await stint(undefined, ["init", target, ...flags])
      expect(stdout).toContain("npm run dev")
      expect(code).toBe(0)
      expect((await readdir(target)).toSorted()).toEqual(FILES)
      expect(await readFile(join(target, ".gitignore"), "utf8")).toContain(".stint/")
      // Instead of an installation, which takes longer (InitProject.long.test.ts).
      await symlink(join(CLONE, "node_modules"), join(target, "node_modules"))
      const once = await run(process.execPath, ["handler.ts"], { cwd: target })
      expect(once.stdout).toContain("COMPLETED")
      expect(once.stdout).toContain(`"longest": "not"`)
    })
  }

  it("refuses a folder with other files, names some of them, and changes none", async () => {
    const target = join(folder, "used")
    await mkdir(target)
    for (const name of ["a.txt", "b.txt", "c.txt", "words.ts"]) await writeFile(join(target, name), "mine")
    const { code, stderr } = await stint(undefined, ["init", target])
    expect(code).toBe(1)
    expect(stderr).toContain(`The folder ${target} is not empty: it contains a.txt, b.txt, c.txt, and 1 more.`)
    expect(stderr).toContain(`stint init ${join(target, "my-app")}`)
    expect(await readdir(target)).toHaveLength(4)
    expect(await readFile(join(target, "words.ts"), "utf8")).toBe("mine")
  })

  it("writes next to an empty Git repository, and prints JSON on request", async () => {
    const target = join(folder, "repository")
    await mkdir(join(target, ".git"), { recursive: true })
    const { stdout } = await stint(undefined, ["init", target, "--json"])
    expect(JSON.parse(stdout)).toMatchObject({ files: expect.arrayContaining(["words.ts"]) })
  })
})

describe("the files of a project", () => {
  it("name the version of the command that wrote them, and the versions that this repository uses", async () => {
    const files = projectFiles({ name: "my-app", form: "effect", source: { _tag: "Registry", version: "1.2.3" } })
    expect(JSON.parse(files["package.json"] ?? "")).toMatchObject({
      dependencies: { "@stint/worker": "^1.2.3", effect: VERSIONS.effect },
      devDependencies: { "@stint/cli": "^1.2.3" }
    })
    expect(files["pnpm-workspace.yaml"]).not.toContain("link:")
    const catalog = await readFile(join(CLONE, "pnpm-workspace.yaml"), "utf8")
    for (const [name, range] of Object.entries(VERSIONS)) {
      expect(catalog).toMatch(new RegExp(`^  "?${name}"?: ${range.slice(1).replaceAll(".", "\\.")}$`, "m"))
    }
  })

  it("give the endpoint a name that no example has", async () => {
    const { default: config } = await import("../../../examples/stint.config.ts")
    expect(Object.keys(config.endpoints)).not.toContain("words")
  })
})
