#!/usr/bin/env node
/**
 * The entry point of the `stint` executable.
 */
import { problemOf } from "./NodeVersion.ts"

const problem = problemOf(process.versions.node)
if (problem === undefined) {
  // Node 22 and 24 warn that `node:sqlite` is experimental. Stint's tests cover the supported versions, and users cannot act on the warning.
  const emitWarning: (...args: ReadonlyArray<never>) => void = process.emitWarning.bind(process)
  Object.defineProperty(process, "emitWarning", {
    configurable: true,
    writable: true,
    value: (...args: ReadonlyArray<unknown>) => {
      if (!String(args[0]).startsWith("SQLite is an experimental feature")) Reflect.apply(emitWarning, undefined, args)
    }
  })
  void import("./CompileCache.ts").then(({ enable }) => {
    enable()
    return import("./Main.ts")
  }).then(({ run }) => run())
} else {
  process.stderr.write(`${problem}\n`)
  process.exitCode = 1
}
