/**
 * File trees for tests: written, changed, and read as plain values.
 */
import * as fc from "fast-check"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { dirname, join } from "node:path"

/** A tree by path: the text of a file, the target of a link, or a directory. */
type Node =
  | { readonly text: string; readonly mode?: number; readonly mtime?: number }
  | { readonly link: string }
  | { readonly directory: true }
export type Tree = { readonly [path: string]: Node }

const writeNode = (root: string, path: string, node: Node): void => {
  const at = join(root, path)
  if ("directory" in node) {
    fs.mkdirSync(at, { recursive: true })
    return
  }
  fs.mkdirSync(dirname(at), { recursive: true })
  if ("link" in node) {
    fs.symlinkSync(node.link, at)
    return
  }
  fs.writeFileSync(at, node.text)
  if (node.mode !== undefined) fs.chmodSync(at, node.mode)
  if (node.mtime !== undefined) fs.utimesSync(at, node.mtime, node.mtime)
}

export const write = (root: string, tree: Tree): void => {
  fs.mkdirSync(root, { recursive: true })
  for (const [path, node] of Object.entries(tree)) writeNode(root, path, node)
}

/** Reads a folder: text, mode and time in seconds of files, targets of links, modes of directories. */
export const read = (root: string, { times = true } = {}): { readonly [path: string]: string } => {
  const found: Record<string, string> = {}
  const walk = (folder: string) => {
    for (const name of fs.readdirSync(join(root, folder)).sort()) {
      const path = folder === "" ? name : `${folder}/${name}`
      const at = join(root, path)
      const stat = fs.lstatSync(at)
      const mode = (stat.mode & 0o7777).toString(8)
      if (stat.isSymbolicLink()) found[path] = `-> ${fs.readlinkSync(at)}`
      else if (stat.isDirectory()) {
        found[path] = `directory ${mode}`
        walk(path)
      } else {
        const bytes = fs.readFileSync(at)
        const text = bytes.length > 100 ? `${bytes.length} bytes ${bytes.subarray(0, 40).toString()}` : bytes.toString()
        // Rounding may lose a microsecond on the way to the disk and back, which changes the second once in a million times.
        found[path] = `file ${mode} ${JSON.stringify(text)}${times ? ` ${Math.round(stat.mtimeMs / 1000)}` : ""}`
      }
    }
  }
  if (fs.existsSync(root)) walk("")
  return found
}

/** Creates a named pipe. */
export const makePipe = (at: string): void => void execFileSync("sh", ["-c", "mkfifo \"$0\"", at])

const NAMES = ["a", "b", "c", "A", "é", "e\u0301", "model.bin", "with space", "-dash", ".hidden", "new\nline", "日本"]

/** Paths of at most three levels from few names, so that trees overlap. */
export const path = fc.array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 3 }).map((names) => names.join("/"))

/** Text of a file: small enough to be packed, or large enough to be copied, when `packBelow` is 64. */
const text = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.string({ minLength: 1, maxLength: 4 }).map((part) => part.repeat(100))
)

const mode = fc.constantFrom(0o644, 0o600, 0o755, 0o666, 0o444)

/** A change to a tree. */
export type Step =
  | { readonly do: "write"; readonly path: string; readonly text: string; readonly mode: number }
  | { readonly do: "link"; readonly path: string; readonly up: boolean; readonly to: string }
  | { readonly do: "directory"; readonly path: string }
  | { readonly do: "touch"; readonly path: string; readonly mtime: number }
  | { readonly do: "chmod"; readonly path: string; readonly mode: number }

/** Changes that add or modify entries but delete nothing. */
export const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant("write" as const), path, text, mode }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("link" as const), path, up: fc.boolean(), to: path }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("directory" as const), path }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("touch" as const),
      path,
      mtime: fc.integer({ min: 1_000_000_000, max: 1_700_000_000 })
    })
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("chmod" as const), path, mode }) }
)

/** Applies a change. An impossible change has no effect. */
export const apply = (root: string, step: Step): void => {
  const at = join(root, step.path)
  try {
    const stat = fs.lstatSync(at, { throwIfNoEntry: false })
    switch (step.do) {
      case "write":
        if (stat !== undefined && !stat.isFile()) return
        fs.mkdirSync(dirname(at), { recursive: true })
        if (stat === undefined) fs.writeFileSync(at, step.text)
        else {
          fs.chmodSync(at, 0o600)
          fs.writeFileSync(at, step.text)
        }
        fs.chmodSync(at, step.mode)
        return
      case "link":
        if (stat !== undefined) return
        fs.mkdirSync(dirname(at), { recursive: true })
        fs.symlinkSync(step.up && step.path.includes("/") ? `../${step.to}` : step.to, at)
        return
      case "directory":
        fs.mkdirSync(at, { recursive: true })
        return
      case "touch":
        if (stat?.isFile() === true) fs.utimesSync(at, step.mtime, step.mtime)
        return
      case "chmod":
        if (stat?.isFile() === true) fs.chmodSync(at, step.mode)
        return
    }
  } catch (error) {
    // A parent is a file or a dangling link.
    if (!(error instanceof Error) || !/ENOTDIR|EEXIST|ELOOP|ENOENT/.test(error.message)) throw error
  }
}
