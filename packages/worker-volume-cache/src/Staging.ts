/**
 * Puts files into a configured directory so that each appears whole, or not at all, and nothing that is there is touched.
 *
 * ```
 *   a directory that is not there yet                     a file in a directory that is there
 *
 *   <dir>/.~stint-<id>/3/...   written in place           <dir>/.~stint-<id>/f7   written
 *          | adopt: one rename for all of it                     | link, which fails when the name is taken
 *          v                                                     v
 *   <dir>/models/...                                      <dir>/models/config.json
 * ```
 *
 * A worker that is killed in between leaves a `.~stint-` folder, which nobody mirrors and the next hydration removes when it is old. Half
 * a file under its real name would be worse: the next sync would take it for a new version.
 *
 * Nothing is written through a link: parents are looked at with `lstat` or were made here, and links are made after all files.
 */
import { constants, type Stats } from "node:fs"
import { join } from "node:path"
import type { LocalFiles } from "./LocalFiles.ts"
import { parentOf } from "./Manifest.ts"
import { STAGING_PREFIX } from "./RelativePath.ts"

/** A directory of the mirror, on this disk: where it is, and whether it is still in preparation. */
interface StagedDirectory {
  readonly at: string
  readonly staged: boolean
}

/** The permissions of a file that is to be. */
export interface Attributes {
  readonly mode: number
  /** Microseconds since 1970. */
  readonly mtime: number
}

/** Folders of hydrations that were killed are removed after this time, in milliseconds. Longer than any hydration may take. */
export const STALE_AFTER = 24 * 60 * 60 * 1000

const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0)

const codeOf = (cause: unknown): unknown => cause instanceof Error && "code" in cause ? cause.code : undefined

/** The preparation of one hydration. Its methods throw what the file system throws. */
export class Staging {
  readonly #local: LocalFiles
  readonly #root: string
  readonly #folder: string
  #umask = 0o777
  readonly #places = new Map<string, StagedDirectory | undefined>()
  readonly #adoptions: Array<{ readonly from: string; readonly to: string }> = []
  readonly #modes: Array<{ readonly path: string; readonly mode: number }> = []
  #made = false
  #files = 0

  constructor(local: LocalFiles, root: string) {
    this.#local = local
    this.#root = root
    this.#folder = join(root, STAGING_PREFIX + crypto.randomUUID())
  }

  /** Removes what killed hydrations left. */
  removeStale(now: number): void {
    for (const name of this.#local.readdirSync(this.#root)) {
      if (!name.startsWith(STAGING_PREFIX)) continue
      const path = join(this.#root, name)
      const stat = this.#local.lstatSync(path, { throwIfNoEntry: false })
      if (stat !== undefined && now - stat.mtimeMs > STALE_AFTER) this.#local.rmSync(path, { recursive: true, force: true })
    }
  }

  #prepare(): void {
    if (this.#made) return
    this.#local.mkdirSync(this.#root, { recursive: true })
    this.#local.mkdirSync(this.#folder, { mode: 0o700 })
    this.#made = true
    this.#umask = this.#findUmask()
  }

  /** The permissions that new files do not get, found out by making one: asking for them would set them, for every thread. */
  #findUmask(): number {
    const path = this.reserve()
    const fd = this.#local.openSync(path, CREATE, 0o777)
    try {
      return 0o777 & ~this.#local.fstatSync(fd).mode
    } finally {
      this.#local.closeSync(fd)
      this.#local.unlinkSync(path)
    }
  }

  /**
   * What is at this path already. Undefined: nothing. `"blocked"`: a directory on the way to it is a file or a link, so it cannot be
   * made.
   */
  existing(path: string): Stats | "blocked" | undefined {
    const place = this.#place(parentOf(path))
    if (place === undefined) return "blocked"
    // What is prepared here has nothing in it that was not checked before.
    if (place.staged) return undefined
    return this.#local.lstatSync(`${this.#root}/${path}`, { throwIfNoEntry: false })
  }

  /** Where a directory is or is being prepared; undefined when something else has its name. */
  #place(path: string): StagedDirectory | undefined {
    if (path === "") return { at: this.#root, staged: false }
    const known = this.#places.get(path)
    if (known !== undefined || this.#places.has(path)) return known
    const place = this.#find(path)
    this.#places.set(path, place)
    return place
  }

  #find(path: string): StagedDirectory | undefined {
    const parent = this.#place(parentOf(path))
    if (parent === undefined) return undefined
    const at = `${parent.at}/${path.slice(path.lastIndexOf("/") + 1)}`
    if (parent.staged) {
      // A name that the file system takes for another one is there already, perhaps as a file.
      try {
        this.#local.mkdirSync(at)
      } catch (cause) {
        if (codeOf(cause) !== "EEXIST" || !this.#local.lstatSync(at).isDirectory()) return undefined
      }
      return { at, staged: true }
    }
    const stat = this.#local.lstatSync(at, { throwIfNoEntry: false })
    if (stat !== undefined) return stat.isDirectory() ? { at, staged: false } : undefined
    this.#prepare()
    const from = `${this.#folder}/${this.#adoptions.length}`
    this.#local.mkdirSync(from)
    this.#adoptions.push({ from, to: at })
    return { at: from, staged: true }
  }

  /** Prepares a directory; false when something else has its name. */
  directory(path: string, mode: number): boolean {
    const place = this.#place(path)
    if (place?.staged === true) this.#modes.push({ path, mode })
    return place !== undefined
  }

  /** A path where a file can be written that {@link commit} then puts into its place. */
  reserve(): string {
    this.#prepare()
    return `${this.#folder}/f${this.#files++}`
  }

  /** Writes a small file. False: something with its name is there. */
  write(path: string, bytes: Uint8Array, attributes: Attributes): boolean {
    const place = this.#place(parentOf(path))
    if (place === undefined) return false
    const at = place.staged ? `${place.at}/${path.slice(path.lastIndexOf("/") + 1)}` : this.reserve()
    const { mode, mtime } = attributes
    let fd: number
    try {
      fd = this.#local.openSync(at, CREATE, mode)
    } catch (cause) {
      if (place.staged && codeOf(cause) === "EEXIST") return false
      throw cause
    }
    let whole = false
    try {
      for (let done = 0; done < bytes.length;) done += this.#local.writeSync(fd, bytes, done)
      if ((mode & this.#umask) !== 0) this.#local.fchmodSync(fd, mode)
      this.#local.futimesSync(fd, mtime / 1e6, mtime / 1e6)
      whole = true
    } finally {
      this.#local.closeSync(fd)
      if (!whole) this.#local.unlinkSync(at)
    }
    return place.staged || this.#put(at, `${this.#root}/${path}`)
  }

  /** Puts a file that was written to a reserved path into its place. False: something with its name is there. */
  commit(reserved: string, path: string, attributes: Attributes): boolean {
    const place = this.#place(parentOf(path))
    if (place === undefined) return false
    this.#local.chmodSync(reserved, attributes.mode)
    this.#local.utimesSync(reserved, attributes.mtime / 1e6, attributes.mtime / 1e6)
    return this.#put(reserved, `${place.at}/${path.slice(path.lastIndexOf("/") + 1)}`)
  }

  /** Moves a file to a name, if that is free. */
  #put(from: string, to: string): boolean {
    try {
      this.#local.linkSync(from, to)
    } catch (cause) {
      if (codeOf(cause) === "EEXIST") return false
      // Without hard links there is a moment in which another process could take the name and lose it to us.
      if (this.#local.lstatSync(to, { throwIfNoEntry: false }) !== undefined) return false
      this.#local.renameSync(from, to)
      return true
    }
    this.#local.unlinkSync(from)
    return true
  }

  /** Makes a link. False: something with its name is there. */
  link(path: string, target: string): boolean {
    const place = this.#place(parentOf(path))
    if (place === undefined) return false
    try {
      this.#local.symlinkSync(target, `${place.at}/${path.slice(path.lastIndexOf("/") + 1)}`)
      return true
    } catch (cause) {
      if (codeOf(cause) === "EEXIST") return false
      throw cause
    }
  }

  /** Moves what was prepared to where it belongs. What cannot be moved, because its name was taken meanwhile, is given up. */
  adopt(): void {
    for (const { from, to } of this.#adoptions) this.#adoptOne(from, to)
    // Not before: a directory that cannot be written to can neither be filled nor moved.
    for (const { mode, path } of this.#modes.toReversed()) {
      const at = `${this.#root}/${path}`
      if (this.#local.lstatSync(at, { throwIfNoEntry: false })?.isDirectory() === true) this.#local.chmodSync(at, mode)
    }
  }

  #adoptOne(from: string, to: string): void {
    try {
      this.#local.renameSync(from, to)
      return
    } catch (cause) {
      const there = this.#local.lstatSync(to, { throwIfNoEntry: false })
      if (there === undefined) throw cause
      if (!there.isDirectory()) return
    }
    // Another worker of this machine was faster: what it does not have goes beside what it has.
    for (const entry of this.#local.readdirSync(from, { withFileTypes: true })) {
      const [source, target] = [`${from}/${entry.name}`, `${to}/${entry.name}`]
      if (entry.isDirectory()) this.#adoptOne(source, target)
      else this.#put(source, target)
    }
  }

  /** Removes what is left of the preparation. */
  discard(): void {
    if (this.#made) this.#local.rmSync(this.#folder, { recursive: true, force: true })
  }
}
