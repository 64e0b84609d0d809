import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { pathToFileURL } from "node:url"
import * as Program from "../src/Program.ts"

/** How long a process may take to start or to end on a busy machine. Milliseconds. */
const LIMIT = 60_000

const until = async (what: string, holds: () => boolean): Promise<void> => {
  const end = Date.now() + LIMIT
  while (!holds()) {
    if (Date.now() > end) throw new Error(`not seen: ${what}`)
    await new Promise((next) => setTimeout(next, 10))
  }
}

/** Whether a process is running. A process that has ended but was not reaped is a zombie. */
const isAlive = (pid: string): boolean => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"))
  } catch {
    return false
  }
}

/** The process group of a process. */
const groupOf = (pid: string): string | undefined => readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ")[2]

describe("a program of a build", () => {
  it.live("reports its lines, its exit code and a missing program", () =>
    Effect.gen(function*() {
      const lines: Array<string> = []
      const ended = yield* Program.run({
        command: "sh",
        args: ["-c", "echo one; printf 'a\\rb\\n' >&2; printf \"$WORD\"; exit 7"],
        env: { WORD: "last" },
        onLine: (line) => lines.push(line)
      })
      assert.deepInclude(ended, { code: 7, output: "one\nlast" })
      assert.deepStrictEqual(lines.toSorted(), ["a", "b", "last", "one"])
      assert.isDefined((yield* Program.run({ command: "no-such-program", args: [] })).error)
      assert.isFalse(yield* Program.isInstalled("no-such-program"))
      assert.isTrue(yield* Program.isInstalled("git"))
    }))

  it.live("masks a line before it is cut, even a line that does not end", () =>
    Effect.gen(function*() {
      const secret = "the-secret-of-24-letters"
      const linesOf = Effect.fnUntraced(function*(script: string) {
        const lines: Array<string> = []
        const { tail } = yield* Program.run({
          command: process.execPath,
          args: [
            "--eval",
            `const secret = ${JSON.stringify(secret)}; const write = (text) => process.stdout.write(text); ${script}`
          ],
          mask: (text) => text.replaceAll(secret, "[secret]"),
          onLine: (line) => lines.push(line)
        })
        assert.deepStrictEqual(tail, lines)
        return lines
      })
      const x = "x".repeat(3_990)
      const cut = `${x}[secret]zz [cut]`
      assert.deepStrictEqual(yield* linesOf(`write("${x}" + secret + "z".repeat(9) + "\\nnext\\n")`), [cut, "next"])
      assert.deepStrictEqual(yield* linesOf(`write("${x}" + secret + "z".repeat(10_000) + "\\nnext")`), [cut, "next"])
      // At the previous and the current end of an open line. The rest of the line is dropped, so it cannot begin with a part of a secret.
      for (const at of [7_990, 790_000, 1_000_000]) {
        const lines = yield* linesOf(`write("x".repeat(${at}) + secret + "z".repeat(1_000_000) + "\\nnext")`)
        assert.deepStrictEqual(lines, [`${"x".repeat(4_000)} [cut]`, "next"])
      }
      // Masked text is shorter: the last part of the open line, which may be half a secret, is still not shown.
      assert.deepStrictEqual(yield* linesOf(`write(secret.repeat(100_000) + "\\nnext")`), [" [cut]", "next"])
    }))

  it.live("does not receive the platform's own variables", () =>
    Effect.gen(function*() {
      process.env["STINT_API_KEY"] = "the-key-of-the-platform"
      const { output } = yield* Program.run({ command: "env", args: [] })
      delete process.env["STINT_API_KEY"]
      assert.notInclude(output, "the-key-of-the-platform")
      assert.include(output, "PATH=")
    }))

  it.live("ends with everything that it started when it is interrupted", () =>
    Effect.gen(function*() {
      const lines: Array<string> = []
      const fiber = yield* Effect.forkChild(Program.run({
        command: "sh",
        args: ["-c", "sleep 300 & echo $!; wait"],
        onLine: (line) => lines.push(line)
      }))
      yield* Effect.promise(() => until("the line", () => lines.length === 1))
      assert.isTrue(isAlive(lines[0] ?? ""))
      yield* Fiber.interrupt(fiber)
      yield* Effect.promise(() => until("its end", () => !isAlive(lines[0] ?? "")))
    }))

  it.live("does not delay an interruption forever when a process that left its group keeps the output open", () =>
    Effect.gen(function*() {
      const lines: Array<string> = []
      const fiber = yield* Effect.forkChild(Program.run({
        command: "sh",
        args: ["-c", "setsid sleep 300 & echo $!; wait"],
        stopGraceMs: 100,
        onLine: (line) => lines.push(line)
      }))
      yield* Effect.promise(() => until("the line", () => lines.length === 1))
      const pid = lines[0] ?? ""
      // Its own process group, so that it does not receive the signal.
      yield* Effect.promise(() => until("its group", () => groupOf(pid) === pid))
      yield* Fiber.interrupt(fiber)
      assert.isTrue(isAlive(pid))
      process.kill(Number(pid), "SIGKILL")
    }))

  it("ends with everything that it started when the platform is killed", async () => {
    const folder = mkdtempSync(join(tmpdir(), "stint-program-"))
    const pid = join(folder, "pid")
    const script = [
      `import { run } from ${JSON.stringify(pathToFileURL(join(import.meta.dirname, "../src/Program.ts")).href)}`,
      `import * as Effect from ${JSON.stringify(import.meta.resolve("effect/Effect"))}`,
      `await Effect.runPromise(run({ command: "sh", args: ["-c", "sleep 300 & echo $! > ${pid}.new; mv ${pid}.new ${pid}; wait"] }))`
    ].join("\n")
    const platform = spawn(process.execPath, ["--input-type=module", "--eval", script], { stdio: "ignore" })
    try {
      await until("the program", () => existsSync(pid))
      const sleeper = readFileSync(pid, "utf8").trim()
      assert.isTrue(isAlive(sleeper))
      platform.kill("SIGKILL")
      await until("the end of the program", () => !isAlive(sleeper))
    } finally {
      platform.kill("SIGKILL")
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
