/** Programs that stand in for a reader's tools while a page runs. */
import { execFileSync } from "node:child_process"
import { chmodSync, writeFileSync } from "node:fs"

/** The path of a program on this machine. */
export const programPath = (name: string): string => execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim()

/** Writes a program that runs lines of shell. */
export const writeProgram = (file: string, lines: ReadonlyArray<string>): void => {
  writeFileSync(file, ["#!/bin/sh", ...lines, ""].join("\n"))
  chmodSync(file, 0o755)
}
