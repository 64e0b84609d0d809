/**
 * Runs docs/operations/from-git-to-rollback.md as a reader does, command by command, and compares the output: from a bare Git repository to
 * an image, a registry, a release, workers from zero and back, a rolling release under load and a rollback. The platform, the engine and
 * the registry are real.
 *
 * The log, with the time of each command, is in .stint/from-git-to-rollback.log afterwards.
 */
import { execFileSync } from "node:child_process"
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { delimiter, dirname, join, resolve } from "node:path"
import process from "node:process"
import { describe, expect, it } from "vitest"
import { fencesOf, markOf } from "../../../scripts/doc-blocks.ts"
import { type Recorded, runPage } from "../../../scripts/doc-runner.ts"
import { BuildWorld, missingParts } from "./BuildWorld.ts"
import { programPath, writeProgram } from "./PageTools.ts"
import { PlatformProcess } from "./PlatformProcess.ts"

const ROOT = resolve(import.meta.dirname, "../../..")
const PAGE = "docs/operations/from-git-to-rollback.md"

const missing = missingParts()

/** How long one command may take on a busy machine. Milliseconds. */
const LIMIT = 300_000

const BASE = "localhost/stint-build-base:1"

describe.skipIf(missing !== undefined)(`${PAGE}${missing === undefined ? "" : ` (${missing})`}`, () => {
  it("leads from a Git repository to a rolling release under load without a failed job, and back", async () => {
    const source = readFileSync(join(ROOT, PAGE), "utf8")
    await using world = await BuildWorld.start()
    await world.engine.makeNodeImage(BASE, {})

    // The reader's tools. The repository's programs stand in for the installed ones.
    const bin = join(world.folder, "bin")
    const packages = join(world.folder, "packages/@stint")
    for (const folder of [bin, packages, join(world.folder, "work")]) mkdirSync(folder, { recursive: true })
    symlinkSync(join(ROOT, "packages/sdk"), join(packages, "sdk"))
    writeProgram(join(bin, "stint"), [`exec '${process.execPath}' '${join(ROOT, "apps/cli/src/bin.ts")}' "$@"`])
    writeProgram(join(bin, "esbuild"), [`exec '${join(ROOT, "node_modules/.bin/esbuild")}' "$@"`])
    writeProgram(join(bin, "podman"), [`exec '${programPath("podman")}' ${world.engine.options.join(" ")} "$@"`])

    // The platform has exactly the settings of the page, with this machine's values in place of the placeholders.
    const placeholders: ReadonlyArray<readonly [from: string, to: string]> = [
      ["registry.example.com", world.registry.address],
      ["/srv/git", world.repositories],
      ["/run/podman/podman.sock", world.engine.socket],
      ["/etc/stint/registry.json", world.credentials],
      ["docker.io/library/node:26-slim", BASE]
    ]
    const localize = (text: string) => placeholders.reduce((all, [from, to]) => all.replaceAll(from, to), text)
    const settings = fencesOf(source).find((fence) => markOf(fence, "file") === "stint.env")?.lines ?? []
    const environment = Object.fromEntries(settings.map((line) => {
      const [name = "", ...value] = line.split("=")
      return [name, localize(value.join("="))]
    }))
    expect(environment, "the settings on the page").toMatchObject({
      STINT_ENGINE: world.engine.socket,
      STINT_ENGINE_AUTH: world.credentials,
      STINT_REGISTRY: `${world.registry.address}/team`,
      STINT_BUILD_FOLDERS: world.repositories
    })
    await using platform = await PlatformProcess.create(["serve"], { ...world.environment, ...environment })

    const log: Array<Recorded> = []
    const identity = { NAME: "Ada", EMAIL: "ada@example.com" }
    const outcome = await runPage(PAGE, source, {
      name: "clone",
      folder: join(world.folder, "work"),
      modules: join(world.folder, "work"),
      examples: join(ROOT, "examples"),
      env: {
        PATH: [bin, dirname(process.execPath), process.env["PATH"]].join(delimiter),
        NODE_PATH: join(world.folder, "packages"),
        STINT_URL: platform.url,
        STINT_API_KEY: platform.key,
        ...Object.fromEntries(
          ["AUTHOR", "COMMITTER"].flatMap((who) => Object.entries(identity).map(([what, value]) => [`GIT_${who}_${what}`, value]))
        )
      },
      commands: [
        ...placeholders.map(([from, to]) => [new RegExp(from.replaceAll(".", "\\."), "g"), to] as const),
        [/^npx esbuild\b/gm, "esbuild"]
      ],
      blockMillis: LIMIT,
      record: (command) => log.push(command)
    })
    mkdirSync(join(ROOT, ".stint"), { recursive: true })
    writeFileSync(
      join(ROOT, ".stint/from-git-to-rollback.log"),
      log.map(({ lines, millis, output }) => `# ${(millis / 1000).toFixed(1)} s\n$ ${lines.join("\n> ")}\n${output}`).join("\n")
    )
    expect(outcome.problems.join("\n\n"), platform.output).toBe("")
    expect(outcome.skipped).toEqual([])
    expect({ run: outcome.run, compared: outcome.compared }).toEqual({ run: 21, compared: 11 })
    // The page cannot show the registry's own copy.
    expect(execFileSync("ls", [join(world.folder, "registry/images/docker/registry/v2/repositories/team")], { encoding: "utf8" }))
      .toBe("words\n")
  }, 900_000)
})
