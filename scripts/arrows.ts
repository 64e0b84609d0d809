/**
 * Checks which packages may depend on which other packages.
 *
 * ```
 *  apps/*, examples, benchmarks        composers: may depend on everything
 *        |
 *  server   store-sqlite   pool-process   payloads-s3   worker-uploads   sdk   ...
 *        \        |              |              |             |
 *         queue   |              |              |             |
 *              \  |              |              |             |
 *               store           pool        payloads       worker     seams: never depend on their implementations
 *                    \           |              |          /
 *                                    contract                         depends on no workspace package
 * ```
 *
 * `apps/console` runs in browsers: it may depend on `contract` and `client` only.
 *
 * `client` has no dependencies at all. `*-testing` packages may only be devDependencies, except that they may depend on each other
 * normally. A dependency cycle of any kind is an error, because turbo builds dependencies first.
 */
import { isPublished, type Manifest, type Package } from "./workspace.ts"

/** The seams. `<seam>-<x>` is an implementation of `<seam>`, or a plugin for it. */
const SEAMS = ["store", "pool", "payloads", "worker"]

/** Packages, other than the composers, that may depend on the implementations of a seam. The SDK's facade includes the worker's plugins. */
const ALSO_COMPOSE: Record<string, ReadonlyArray<string>> = { worker: ["sdk"] }

const short = (name: string) => name.replace("@stint/", "")
const isSuite = (name: string) => name.endsWith("-testing")
const seamOf = (name: string) => isSuite(name) ? undefined : SEAMS.find((seam) => short(name).startsWith(`${seam}-`))
const isComposer = (folder: string) => !folder.startsWith("packages/")

/** The dependencies that users install with the package. */
const installedWith = (manifest: Manifest) => ({
  ...manifest.dependencies,
  ...manifest.peerDependencies,
  ...manifest.optionalDependencies
})

/** Returns each dependency cycle among the packages once, as `a -> b -> a`. */
const circlesOf = (arrows: ReadonlyMap<string, ReadonlyArray<string>>): ReadonlyArray<string> => {
  const circles: Array<string> = []
  const done = new Set<string>()
  const visit = (name: string, path: ReadonlyArray<string>) => {
    if (path.includes(name)) {
      circles.push([...path.slice(path.indexOf(name)), name].join(" -> "))
    } else if (!done.has(name)) {
      for (const next of arrows.get(name) ?? []) visit(next, [...path, name])
      done.add(name)
    }
  }
  for (const name of arrows.keys()) visit(name, [])
  return circles
}

/** Returns one line for each dependency that breaks a rule above. */
export const arrowProblems = (packages: ReadonlyArray<Package>): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const folders = new Map(packages.map(({ folder, name }) => [name, folder]))
  const arrows = new Map<string, ReadonlyArray<string>>()

  for (const { folder, manifest, name } of packages) {
    const installed = installedWith(manifest)
    const all = Object.keys({ ...installed, ...manifest.devDependencies })
    const ours = all.filter((one) => folders.has(one))
    arrows.set(name, ours)
    if (name === "@stint/client" && Object.keys(installed).length > 0) {
      problems.push(
        `${folder}/package.json: ${name} depends on ${
          Object.keys(installed).join(", ")
        }. The client must have no dependencies: write the ` +
          "few lines that it needs, or move code that needs Effect to @stint/client-effect."
      )
    }
    for (const dependency of ours) {
      const arrow = `${folder}/package.json: ${name} depends on ${dependency}`
      const seam = seamOf(dependency)
      if (name === "@stint/console" && !["contract", "client"].includes(short(dependency))) {
        problems.push(
          `${arrow}. The console runs in browsers and calls the platform over HTTP: use @stint/client, or the types from @stint/contract.`
        )
      } else if (name === "@stint/contract") {
        problems.push(
          `${arrow}. The contract must not depend on workspace packages: move the code that it needs into the contract.`
        )
      } else if (isComposer(folder)) {
        if (isPublished(folder) && isSuite(dependency) && dependency in installed) {
          problems.push(`${arrow}, which is a test package. Move it to devDependencies.`)
        }
      } else if (isComposer(folders.get(dependency) ?? "")) {
        problems.push(`${arrow}, which is a program. Move the shared code to a package under packages/.`)
      } else if (isSuite(dependency) && !isSuite(name) && dependency in installed) {
        problems.push(`${arrow}, which is a test package. Move it to devDependencies.`)
      } else if (seam !== undefined && !(ALSO_COMPOSE[seam] ?? []).includes(short(name))) {
        problems.push(
          `${arrow}, an implementation. Depend on @stint/${seam} and let an app or an example provide the layer; for tests, use the ` +
            `memory layer from @stint/${seam} and the suites from @stint/${seam}-testing, or put the test into apps/cli/test.`
        )
      }
    }
  }
  for (const circle of circlesOf(arrows)) {
    problems.push(
      `The dependencies form a cycle: ${circle}. Move shared code to the lower package, and a test that needs both packages to the upper one.`
    )
  }
  return problems
}
