/**
 * Packs the packages as they would be published. Needs `pnpm build`.
 */
import { execFileSync } from "node:child_process"
import { globSync } from "node:fs"
import { join } from "node:path"
import { publishable, root } from "./workspace.ts"

/** The start of a command that runs pnpm. pnpm sets the variable to its own path when it runs a script. */
export const pnpm: ReadonlyArray<string> = process.env["npm_execpath"]?.includes("pnpm") === true
  ? [process.env["npm_execpath"]]
  : ["npx", "-y", "pnpm@12"]

/** Packs every published package into a folder. Returns the tarball of each package by its name. */
export const packTo = (folder: string): ReadonlyMap<string, string> => {
  const [program, ...args] = [
    ...pnpm,
    "-r",
    ...publishable.flatMap((one) => ["--filter", one.name]),
    "pack",
    "--pack-destination",
    folder
  ]
  execFileSync(program, args, { cwd: root, stdio: ["ignore", "ignore", "inherit"] })
  return new Map(publishable.map(({ name }) => {
    const [tarball] = globSync(`${name.replace("@", "").replace("/", "-")}-[0-9]*.tgz`, { cwd: folder })
    if (tarball === undefined) throw new Error(`${name} was not packed`)
    return [name, join(folder, tarball)]
  }))
}
