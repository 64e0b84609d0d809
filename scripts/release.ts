/**
 * Releases all packages, which share one version.
 *
 * - `version`: turns the changesets into the next version and the changelogs. Review and commit the result.
 * - `publish`: builds, publishes every package that the registry does not have in this version, and tags the commit. A failed run can be
 * repeated. `--dry-run` publishes and tags nothing. `--without-provenance` is for machines that cannot sign a statement of where the package
 * was built.
 * - `sbom [FILE]`: writes the bill of materials of what users install, in CycloneDX. `publish` does it too.
 */
import { execFileSync } from "node:child_process"
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { packTo, pnpm } from "./pack.ts"
import { publishable, readManifest, root } from "./workspace.ts"

const [command = "", ...flags] = process.argv.slice(2)
const isDryRun = flags.includes("--dry-run")

const run = ([program = "", ...args]: ReadonlyArray<string>) => execFileSync(program, args, { cwd: root, stdio: "inherit" })
const read = ([program = "", ...args]: ReadonlyArray<string>) =>
  execFileSync(program, args, { cwd: root, encoding: "utf8" }).trim()
const versionNow = () => readManifest(join(root, "packages/contract/package.json")).version ?? "0.0.0"
const changesets = () => globSync(".changeset/*.md", { cwd: root })

const version = () => {
  run([...pnpm, "exec", "changeset", "version"])
  // Workers report the version. It is a constant, because a bundled worker has no package.json next to it.
  const file = join(root, "packages/worker/src/runtime/Version.ts")
  const source = readFileSync(file, "utf8")
  writeFileSync(file, source.replace(/(?<=VERSION = ")[^"]+/, versionNow()))
  console.log(
    `The next version is ${versionNow()}. Review the changelogs, run \`pnpm test\` and commit. Then run \`pnpm release:publish\`.`
  )
}

/** The steps to take before publishing, as sentences. */
const obstacles = (): ReadonlyArray<string> => {
  const found: Array<string> = []
  if (readManifest(join(root, "package.json")).repository === undefined) {
    found.push(
      "package.json has no `repository`. npm shows it on every page, and provenance names it. Set it to the public address, with `homepage` " +
        "and `bugs`, run `pnpm format` and commit."
    )
  }
  if (changesets().length > 0) {
    found.push(`${changesets().length} changesets are not in a version yet. Run \`pnpm release:version\` and commit.`)
  }
  if (read(["git", "status", "--porcelain"]) !== "") {
    found.push("The working tree has changes. Commit them, because the tag names a commit.")
  }
  if (
    !flags.includes("--without-provenance") && process.env["GITHUB_ACTIONS"] !== "true" && process.env["GITLAB_CI"] !== "true"
  ) {
    found.push(
      "Provenance needs a CI job of the public repository with an identity token (`id-token: write` in GitHub Actions). Publish there, or pass " +
        "--without-provenance."
    )
  }
  return found
}

const sbom = (file = join(root, `stint-${versionNow()}.cdx.json`)) => {
  run([...pnpm, "sbom", "--sbom-format", "cyclonedx", "--prod", "--lockfile-only", "--out", file])
  console.log(`Wrote ${file}.`)
}

const publish = () => {
  const found = obstacles()
  for (const obstacle of found) console.error(isDryRun ? `Before publishing: ${obstacle}` : obstacle)
  if (found.length > 0 && !isDryRun) {
    process.exitCode = 1
    return
  }
  run([...pnpm, "build", "--output-logs=errors-only"])
  if (isDryRun) {
    const folder = mkdtempSync(join(tmpdir(), "stint-release-"))
    try {
      for (const tarball of packTo(folder).values()) {
        run(["npm", "publish", "--dry-run", "--silent", "--access=public", "--tag=latest", tarball])
      }
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
    console.log(`${publishable.length} packages can be published as ${versionNow()}.`)
    return
  }
  const filters = publishable.flatMap(({ name }) => ["--filter", name])
  const provenance = flags.includes("--without-provenance") ? [] : ["--provenance"]
  run([...pnpm, "-r", ...filters, "publish", "--access=public", "--no-git-checks", ...provenance])
  const tag = `v${versionNow()}`
  if (read(["git", "tag", "--list", tag]) === "") run(["git", "tag", "--annotate", tag, "--message", `Stint ${versionNow()}`])
  sbom()
  console.log(
    `Published ${publishable.length} packages as ${versionNow()}. Push the tag (git push origin ${tag}) and attach the bill of materials to the release.`
  )
}

if (command === "version") version()
else if (command === "publish") publish()
else if (command === "sbom") sbom(...flags)
else {
  console.error(
    `Unknown command "${command}". Run \`node scripts/release.ts version\` \`node scripts/release.ts publish [--dry-run]\` or \`node scripts/release.ts sbom [FILE]\`.`
  )
  process.exitCode = 1
}
