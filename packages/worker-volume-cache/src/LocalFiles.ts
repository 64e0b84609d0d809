/**
 * The worker's local disk: the calls that run for every file.
 *
 * They are synchronous, because a call through the thread pool costs ten times the system call itself for a small file. Loops of such calls
 * yield every few milliseconds (file://./TimeSlice.ts), so that timers and sockets of running jobs are served.
 *
 * It is a reference, so that tests can replace single calls with failing ones.
 */
import * as Context from "effect/Context"
import * as fs from "node:fs"

/** The calls of `node:fs` that are used. */
export type LocalFiles = Pick<
  typeof fs,
  | "chmodSync"
  | "closeSync"
  | "fchmodSync"
  | "fstatSync"
  | "futimesSync"
  | "linkSync"
  | "lstatSync"
  | "mkdirSync"
  | "openSync"
  | "readdirSync"
  | "readlinkSync"
  | "readSync"
  | "realpathSync"
  | "renameSync"
  | "rmSync"
  | "statfsSync"
  | "symlinkSync"
  | "unlinkSync"
  | "utimesSync"
  | "writeSync"
>

/** The local disk. Default: `node:fs`. */
export const LocalFiles = Context.Reference<LocalFiles>("@stint/worker-volume-cache/LocalFiles", { defaultValue: () => fs })
