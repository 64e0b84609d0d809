/**
 * Creates files in a configured directory. Each file appears complete or not at all, and existing files are not changed.
 *
 * ```
 *   a directory that does not exist yet                   a file in an existing directory
 *
 *   <dir>/.~stint-<id>/3/...   filled                     <dir>/.~stint-<id>/f7   written
 *          | adopt: one rename for all of it                     | link, which fails if the name exists
 *          v                                                     v
 *   <dir>/models/...                                      <dir>/models/config.json
 * ```
 *
 * A worker that is killed in between leaves a `.~stint-` folder, which is never mirrored and which a later hydration removes when it is old.
 * A partial file under its real name would be worse, because the next sync would treat it as a new version.
 *
 * Nothing is written through a link: parents are checked with `lstat` or were created here, and links are created after all files.
 */
import { constants, type Stats } from "node:fs"
import { join } from "node:path"
import type { LocalFiles } from "./LocalFiles.ts"
import { parentOf } from "./Manifest.ts"
import { STAGING_PREFIX } from "./RelativePath.ts"

/** A directory of the mirror on the local disk: its current path, and whether it is still in the staging folder. */
interface StagedDirectory {
  readonly at: string
  readonly staged: boolean
}

/** The attributes of a new file. */
export interface Attributes {
  readonly mode: number
  /** Microseconds since 1970. */
  readonly mtime: number
}

/** The age at which the staging folder of a killed hydration is removed. Longer than any hydration. Milliseconds. */
const STALE_AFTER = 24 * 60 * 60 * 1000

const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0)

const codeOf = (cause: unknown): unknown => cause instanceof Error && "code" in cause ? cause.code : undefined

/** The staging area of one hydration. Its methods throw the file system's errors. */
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

  /** Removes the staging folders of killed hydrations. */
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

  /** Reads the umask by creating a file, because `process.umask()` changes it briefly for every thread. */
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
   * Returns the existing file at this path, undefined if there is none, or `"blocked"` if a parent is a file or a link, so that the path
   * cannot be created.
   */
  existing(path: string): Stats | "blocked" | undefined {
    const place = this.#place(parentOf(path))
    if (place === undefined) return "blocked"
    // A staged directory contains only files of this hydration.
    if (place.staged) return undefined
    return this.#local.lstatSync(`${this.#root}/${path}`, { throwIfNoEntry: false })
  }

  /** The current location of a directory; undefined if its name belongs to a file or link. */
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
      // On a case-insensitive file system the name may already exist, perhaps as a file.
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

  /** Creates a directory. False if its name belongs to a file or link. */
  directory(path: string, mode: number): boolean {
    const place = this.#place(path)
    if (place?.staged === true) this.#modes.push({ path, mode })
    return place !== undefined
  }

  /** Returns a staging path for a file, which {@link commit} then moves to its final path. */
  reserve(): string {
    this.#prepare()
    return `${this.#folder}/f${this.#files++}`
  }

  /** Writes a small file. False if its name already exists. */
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
    let complete = false
    try {
      for (let done = 0; done < bytes.length;) done += this.#local.writeSync(fd, bytes, done)
      if ((mode & this.#umask) !== 0) this.#local.fchmodSync(fd, mode)
      this.#local.futimesSync(fd, mtime / 1e6, mtime / 1e6)
      complete = true
    } finally {
      this.#local.closeSync(fd)
      if (!complete) this.#local.unlinkSync(at)
    }
    return place.staged || this.#put(at, `${this.#root}/${path}`)
  }

  /** Moves a file from its reserved path to its final path. False if the name already exists. */
  commit(reserved: string, path: string, attributes: Attributes): boolean {
    const place = this.#place(parentOf(path))
    if (place === undefined) return false
    this.#local.chmodSync(reserved, attributes.mode)
    this.#local.utimesSync(reserved, attributes.mtime / 1e6, attributes.mtime / 1e6)
    return this.#put(reserved, `${place.at}/${path.slice(path.lastIndexOf("/") + 1)}`)
  }

  /** Moves a file, unless the target exists. */
  #put(from: string, to: string): boolean {
    try {
      this.#local.linkSync(from, to)
    } catch (cause) {
      if (codeOf(cause) === "EEXIST") return false
      // Without hard links, a file that another process creates between these two calls is overwritten.
      if (this.#local.lstatSync(to, { throwIfNoEntry: false }) !== undefined) return false
      this.#local.renameSync(from, to)
      return true
    }
    this.#local.unlinkSync(from)
    return true
  }

  /** Creates a link. False if its name already exists. */
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

  /** Moves the staged directories to their final paths. Entries whose name was taken in the meantime are dropped. */
  adopt(): void {
    for (const { from, to } of this.#adoptions) this.#adoptOne(from, to)
    // Modes are set last, because a read-only directory can be neither filled nor moved.
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
      const existing = this.#local.lstatSync(to, { throwIfNoEntry: false })
      if (existing === undefined) throw cause
      if (!existing.isDirectory()) return
    }
    // Another worker on this machine created the directory first: add the missing entries.
    for (const entry of this.#local.readdirSync(from, { withFileTypes: true })) {
      const [source, target] = [`${from}/${entry.name}`, `${to}/${entry.name}`]
      if (entry.isDirectory()) this.#adoptOne(source, target)
      else this.#put(source, target)
    }
  }

  /** Removes the staging folder. */
  discard(): void {
    if (this.#made) this.#local.rmSync(this.#folder, { recursive: true, force: true })
  }
}
