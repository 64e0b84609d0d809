import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Programs from "../src/Programs.ts"
import { program, temporaryFolder } from "./CheckHarness.ts"

const folder = temporaryFolder()

describe("finding a program", () => {
  const first = join(folder, "first")
  const second = join(folder, "second")
  mkdirSync(join(first, "folder"), { recursive: true })
  mkdirSync(second)
  writeFileSync(join(first, "text"), "not executable")
  const text = program(second, "text", "true")
  const both = program(first, "both", "true")
  program(second, "both", "true")
  program(second, "folder", "true")
  symlinkSync("/no/such/file", join(first, "gone"))

  it.each([
    ["both", `${first}:${second}`, both],
    ["text", `${first}:${second}`, text],
    ["folder", `${first}:${second}`, join(second, "folder")],
    ["gone", `${first}:${second}`, undefined],
    ["both", "", undefined],
    ["both", `::/no/such/folder:${first}`, both],
    ["package.json", ".:", undefined]
  ])("finds %s in %s", (name, path, expected) => expect(Programs.find(name, path)).toBe(expected))
})

describe("running a program", () => {
  it.live("returns its output and exit status", () =>
    Effect.gen(function*() {
      const writes = program(folder, "writes", "echo \"out $1\"; echo err >&2; exit 3")
      expect(yield* Programs.run(writes, ["a b"], 10)).toEqual({ code: 3, signal: null, stdout: "out a b\n", stderr: "err\n" })
      const dies = program(folder, "dies", "kill -TERM $$")
      expect(Programs.describeExit(yield* Programs.run(dies, [], 10))).toBe("SIGTERM")
    }))

  it.live("truncates its output", () =>
    Effect.gen(function*() {
      const floods = program(folder, "floods", "head -c 5000000 /dev/zero | tr '\\0' x")
      const { code, stdout } = yield* Programs.run(floods, [], 20)
      expect(code).toBe(0)
      expect(stdout).toBe("x".repeat(65_536))
    }))

  it.live("fails with the program's name when it cannot be started", () =>
    Effect.gen(function*() {
      const text = join(folder, "text")
      writeFileSync(text, "no program")
      expect(yield* Effect.flip(Programs.run(text, [], 10))).toMatchObject({
        started: false,
        message: `${text} cannot be started (EACCES)`
      })
    }))

  const pids = () => join(folder, `pid-${Math.random()}`)
  const lives = (file: string) => spawnSync("kill", ["-0", readFileSync(file, "utf8").trim()]).status === 0
  const gone = (file: string) => Effect.promise(() => expect.poll(() => lives(file), { timeout: 10_000 }).toBe(false))

  it.live("kills the program after the limit and returns its output so far", () =>
    Effect.gen(function*() {
      const pid = pids()
      const hangs = program(folder, "hangs", `echo $$ > ${pid}; echo here; trap '' TERM; exec sleep 600`)
      expect(yield* Effect.flip(Programs.run(hangs, [], 0.5))).toMatchObject({
        started: true,
        message: `${hangs} did not end within 0.5 s`,
        stdout: "here\n"
      })
      yield* gone(pid)
    }))

  it.live("kills the program on interruption", () =>
    Effect.gen(function*() {
      const pid = pids()
      const hangs = program(folder, "waits", `echo $$ > ${pid}.new; mv ${pid}.new ${pid}; exec sleep 600`)
      const running = yield* Effect.forkChild(Programs.run(hangs, [], 600))
      yield* Effect.promise(() => expect.poll(() => existsSync(pid), { timeout: 10_000 }).toBe(true))
      yield* Fiber.interrupt(running)
      yield* gone(pid)
    }))
})
