/**
 * Checks how TypeScript resolves the entry points of packed packages (`attw`): node check-types.mjs <tarball>...
 *
 * The packages contain only ES modules. So `node10`, which does not know `exports`, is not supported, and a CommonJS module loads them with
 * Node's `require` of ES modules.
 */
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core"
import { readFileSync } from "node:fs"
import { basename } from "node:path"

for (const tarball of process.argv.slice(2)) {
  const { problems = [], types } = await checkPackage(createPackageFromTarballData(readFileSync(tarball)))
  if (types === false) continue
  for (const problem of problems) {
    if (problem.resolutionKind === "node10" || problem.kind === "CJSResolvesToESM") continue
    console.log(`${basename(tarball)}: ${JSON.stringify(problem)}`)
    process.exitCode = 1
  }
}
