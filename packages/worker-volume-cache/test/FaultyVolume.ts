/**
 * Volumes that fail, hang, are killed or take turns, and a recorder of their operations.
 */
import * as Effect from "effect/Effect"
import * as VolumeFiles from "../src/VolumeFiles.ts"
import type { VolumeFiles as Files } from "../src/VolumeFiles.ts"

type Operation = Exclude<keyof Files, "pending">

/** The operations that change the volume. */
const WRITES: ReadonlyArray<Operation> = ["makeDirectory", "write", "link", "rename", "remove", "copyIn"]

/** Wraps every operation. `run` is the operation itself. */
export type Around = <A>(
  operation: Operation,
  path: string,
  run: Effect.Effect<A, VolumeFiles.VolumeFileError>
) => Effect.Effect<A, VolumeFiles.VolumeFileError>

export const around = (act: Around, files: Files = VolumeFiles.make()): Files => {
  const by: Around = (operation, path, run) => Effect.suspend(() => act(operation, path, run))
  return {
    pending: () => 0,
    realPath: (path) => by("realPath", path, files.realPath(path)),
    stat: (path) => by("stat", path, files.stat(path)),
    makeDirectory: (path) => by("makeDirectory", path, files.makeDirectory(path)),
    list: (path) => by("list", path, files.list(path)),
    readAll: (path, most) => by("readAll", path, files.readAll(path, most)),
    read: (path, offset, length) => by("read", path, files.read(path, offset, length)),
    write: (path, parts, options) => by("write", path, files.write(path, parts, options)),
    link: (from, to) => by("link", to, files.link(from, to)),
    rename: (from, to) => by("rename", to, files.rename(from, to)),
    remove: (path) => by("remove", path, files.remove(path)),
    copyIn: (local, path) => by("copyIn", path, files.copyIn(local, path)),
    copyOut: (path, local, size) => by("copyOut", path, files.copyOut(path, local, size))
  }
}

export const fault = (operation: Operation, path: string, code: string) =>
  new VolumeFiles.VolumeFileError({ operation, path, code, message: `${code}: a fault of the test, ${operation} '${path}'` })

/** Fails when `when` returns true. */
export const failing = (code: string, when: (operation: Operation, path: string) => boolean): Files =>
  around((operation, path, run) => when(operation, path) ? Effect.fail(fault(operation, path, code)) : run)

/** Never finishes when `when` returns true. */
export const hanging = (when: (operation: Operation, path: string) => boolean) => {
  let hangs = false
  const files = around((operation, path, run) => {
    if (!when(operation, path)) return run
    hangs = true
    return Effect.never
  })
  return { files, hangs: () => hangs }
}

/** The operations on the volume. */
export const counting = () => {
  const log: Array<{ readonly operation: Operation; readonly path: string }> = []
  const files = around((operation, path, run) => {
    log.push({ operation, path })
    return run
  })
  return { files, log, writes: () => log.filter(({ operation }) => WRITES.includes(operation)) }
}

/**
 * Simulates a process that is killed before its `at`-th change to the volume or, with `torn`, in the middle of it. Later operations,
 * including cleanup, have no effect.
 */
export const crashing = (at: number, torn: boolean) => {
  const real = VolumeFiles.make()
  let changes = 0
  let dead = false
  const die = Effect.die("killed")
  const act: Around = (operation, _path, run) => {
    if (dead) return die
    if (!WRITES.includes(operation) || changes++ < at) return run
    dead = true
    return die
  }
  const files = around(act)
  const half: Files["write"] = (path, parts, options) =>
    Effect.suspend(() => {
      if (dead || changes !== at || !torn) return act("write", path, real.write(path, parts, options))
      dead = true
      const bytes = Buffer.concat(parts)
      return Effect.andThen(Effect.ignore(real.write(path, [bytes.subarray(0, bytes.length / 2)], options)), die)
    })
  return { files: Object.assign(files, { write: half }), died: () => dead }
}
