/** Shared helpers for the tests: a temporary folder with programs, and the reason for a failed check. */
import { afterAll } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { chmodSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { FitnessCheckFailed } from "../src/FitnessCheckFailed.ts"

const root = realpathSync(mkdtempSync(join(tmpdir(), "stint-fitness-")))
afterAll(() => rmSync(root, { recursive: true, force: true, maxRetries: 3 }))

/** Creates a folder that is removed after the test file. */
export const temporaryFolder = (): string => mkdtempSync(join(root, "folder-"))

/** Writes a shell program and returns its path. */
export const program = (folder: string, name: string, script: string): string => {
  const file = join(folder, name)
  writeFileSync(file, `#!/bin/sh\n${script}\n`)
  chmodSync(file, 0o755)
  return file
}

/** The reason for a failed check, or undefined if it passes. */
export const reason = <R>(check: Effect.Effect<void, FitnessCheckFailed, R>): Effect.Effect<string | undefined, never, R> =>
  Effect.match(check, { onSuccess: () => undefined, onFailure: ({ message }) => message })
