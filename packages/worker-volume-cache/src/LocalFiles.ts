/**
 * The worker's own disk: the calls that are made 20,000 times.
 *
 * They are synchronous, since a call through the thread pool costs ten times what the kernel needs for a small file. The loops that make
 * them give way every few milliseconds (file://./Slice.ts), so timers and sockets of running jobs are served in between.
 *
 * It is a reference, so tests replace single calls by ones that fail.
 */
import * as Context from "effect/Context"
import * as fs from "node:fs"

/** The calls that are used, as `node:fs` has them. */
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

/** The disk that is used. */
export const LocalFiles = Context.Reference<LocalFiles>("@stint/worker-volume-cache/LocalFiles", { defaultValue: () => fs })
