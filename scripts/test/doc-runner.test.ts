import { mkdtempSync, realpathSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { afterAll, describe, expect, it } from "vitest"
import { isText, jsonDifference, varyingOf } from "../doc-compare.ts"
import { planOf } from "../doc-plan.ts"
import { type Outcome, runPage } from "../doc-runner.ts"

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stint-docs-test-")))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const runLines = (...lines: ReadonlyArray<string>): Promise<Outcome> =>
  runPage("page.md", lines.join("\n"), {
    name: "clone",
    folder,
    modules: folder,
    examples: folder,
    env: { PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter) },
    commands: []
  })

const sh = (...lines: ReadonlyArray<string>) => ["```sh", ...lines, "```"]
const text = (...lines: ReadonlyArray<string>) => ["```", ...lines, "```"]

const problemsOf = (...lines: ReadonlyArray<string>) => planOf(lines.join("\n"), "clone").problems

describe("running a page", () => {
  it("runs all shell blocks in one shell, and compares the output that follows", async () => {
    expect(
      await runLines(
        ...sh("mkdir -p inner && cd inner", "name=Ada"),
        ...sh("echo \"$name in $(basename $PWD)\""),
        ...text("Ada in inner")
      )
    ).toEqual({ page: "page.md", run: 2, compared: 1, skipped: [], problems: [] })
  })

  it("reports a command that fails, with its line and its text", async () => {
    const { problems, run } = await runLines(
      "# Title",
      ...sh("echo fine"),
      ...sh("echo before", "stnt endpoints list", "echo after")
    )
    expect(problems).toEqual([expect.stringMatching(/^page\.md:6 Exit code 127.*stnt endpoints list.*before\n.*not found\n$/s)])
    expect(run).toBe(1)
  })

  it("reports a failure in the middle of a pipe, and a block that ends the shell", async () => {
    expect((await runLines(...sh("false | cat"))).problems).toHaveLength(1)
    expect((await runLines(...sh("exit 0"))).problems).toEqual([expect.stringContaining("the shell has ended")])
  })

  it("reports an output that differs from the page", async () => {
    const { compared, problems } = await runLines(...sh("echo 3; echo 2"), ...text("3", "1"))
    expect(problems).toEqual([expect.stringMatching(/^page\.md:5 The page shows:\n3\n1\n\nThe output:\n3\n2\n$/)])
    expect(compared).toBe(0)
  })

  it("reports output that the page does not show", async () => {
    expect((await runLines(...sh("echo 3; echo 2"), ...text("3"))).problems).toHaveLength(1)
  })

  it("compares JSON by value, and requires numbers to be in their range", async () => {
    const page = (
      range: string
    ) => [
      ...sh("echo '{\"id\":\"x-1\",\"time\":40}'"),
      `<!-- varies: time ${range} -->`,
      "```json",
      "{ \"time\": 7, \"id\": \"x-…\" }",
      "```"
    ]
    expect((await runLines(...page("1..90"))).problems).toEqual([])
    expect((await runLines(...page("1..9"))).problems).toEqual([expect.stringContaining("time is 40, not from 1 to 9")])
  })

  it("compares the JSON after the lines that a command prints first", async () => {
    const { problems } = await runLines(
      ...sh("echo Job 1; echo '{'; echo '  \"a\": [1]'; echo '}'"),
      "```json",
      "{ \"a\": [1] }",
      "```"
    )
    expect(problems).toEqual([])
  })

  it("ignores stderr when a comment says so", async () => {
    const page = [...sh("echo 3; echo progress >&2; echo 2"), ...text("3", "2")]
    expect((await runLines("<!-- stdout -->", ...page)).problems).toEqual([])
    expect((await runLines(...page)).problems).toHaveLength(1)
  })

  it("runs each command of a transcript", async () => {
    const page = (second: string) => ["```console", "$ echo one", "one", "$ echo two", second, "```"]
    expect(await runLines(...page("two"))).toMatchObject({ run: 1, compared: 1, problems: [] })
    expect((await runLines(...page("three"))).problems).toHaveLength(1)
  })

  it("saves a block under its name, and runs a module with its hidden lines", async () => {
    const { problems } = await runLines(
      "<!-- file: saved/double.ts -->",
      "```ts",
      "export const double = (n: number) => 2 * n",
      "```",
      ...sh("node -e 'import(\"./saved/double.ts\").then(({ double }) => console.log(double(4)))'"),
      ...text("8"),
      "<!-- given",
      "const name: string = \"Ada\"",
      "-->",
      "```ts",
      "console.log(`Hello, ${name}!`)",
      "```",
      ...text("Hello, Ada!")
    )
    expect(problems).toEqual([])
  })

  it("waits for a background program, compares its output, interrupts it, and ends it with the page", async () => {
    // Handles the signal before it prints `ready`: the test interrupts it at once.
    const program = [
      "trap 'echo stopping; exit' INT; echo $BASHPID > pid; echo starting; echo ready",
      // A signal ends `wait` at once. A loop of short commands missed one under load.
      "sleep 600 & wait"
    ]
    const page = (last: string) => [
      "<!-- background: ready -->",
      ...sh(...program),
      ...text("starting", "ready"),
      "<!-- interrupt -->",
      ...text(last)
    ]
    expect(await runLines(...page("stopping"))).toMatchObject({ run: 1, compared: 2, problems: [] })
    const waiting = await runLines(
      "<!-- background: ready -->",
      ...sh("echo ready; sleep 600 & echo $! > pid; wait"),
      ...sh("cat pid")
    )
    expect(waiting).toMatchObject({ run: 2, problems: [] })
    const stopped = await runLines(...sh("pid=$(cat pid)", "! kill -0 $pid"))
    expect(stopped.problems).toEqual([])
  })

  it("waits for the programs that a background program started before it kills them", async () => {
    // Like npm, the shell ends at the signal, but the program that it started takes a moment longer.
    const child = "trap 'sleep 0.3; echo done > finished; exit' TERM; echo ready; while :; do read -r -t 0.05 < <(:) || :; done"
    expect((await runLines("<!-- background: ready -->", ...sh(`bash -c "${child}" & trap 'exit 1' TERM; wait`))).problems)
      .toEqual([])
    expect((await runLines(...sh("cat finished"))).problems).toEqual([])
  })

  it("compares what a background program prints later", async () => {
    const page = (line: string) => [
      "<!-- background: ready -->",
      ...sh("echo ready; until test -e go; do read -r -t 0.05 < <(:) || :; done; sleep 600 & echo gone; wait"),
      ...sh("touch go"),
      "## Later",
      "<!-- prints -->",
      ...text(line)
    ]
    expect(await runLines(...page("gone"), ...sh("rm go"))).toMatchObject({ run: 3, compared: 1, problems: [] })
    expect(problemsOf("<!-- prints -->", ...text("gone"))).toHaveLength(1)
  })

  it("reports a background program that ends without the text", async () => {
    const { problems } = await runLines("<!-- background: ready -->", ...sh("echo broken; exit 3"))
    expect(problems).toEqual([expect.stringMatching(/did not print `ready` before it ended.*broken/s)])
  })

  it("runs hidden commands, which do not count as blocks", async () => {
    expect(await runLines("<!-- shell", "name=Ada", "-->", ...sh("echo $name"), ...text("Ada"))).toMatchObject({
      run: 1,
      compared: 1
    })
  })

  it("replaces placeholders, and replaces the ports on the page with free ones", async () => {
    const page = [
      "<!-- replace: <key> => secret -->",
      ...sh("echo <key> \"${STINT_URL#http://}\" 127.0.0.1:4600 $PORT"),
      ...text("secret 127.0.0.1:4600 127.0.0.1:4600 4600")
    ]
    expect((await runLines(...page)).problems).toEqual([])
    expect((await runLines(...sh("test $PORT != 46''00"))).problems).toEqual([])
  })

  it("expects the exit code that a comment names", async () => {
    expect((await runLines("<!-- exit: 3 -->", ...sh("(exit 3)"))).problems).toEqual([])
    expect((await runLines("<!-- exit: 3 -->", ...sh("true"))).problems).toHaveLength(1)
  })
})

describe("planning a page", () => {
  it("accepts a skipped block with a reason", async () => {
    expect(await runLines("<!-- skip: needs a GPU to run -->", ...sh("nvidia-smi"))).toMatchObject({
      run: 0,
      skipped: ["page.md:3 needs a GPU to run"],
      problems: []
    })
  })

  it.each([["<!-- skip -->"], ["<!-- skip: -->"], ["<!-- skip: later -->"], ["<!-- only: clone: -->"], [
    "<!-- only: docker: needs its daemon -->"
  ]])(
    "rejects %s, which has no reason or an unknown setting",
    async (comment) => {
      expect(problemsOf(comment, ...sh("true"))).toHaveLength(1)
      expect((await runLines(comment, ...sh("true"))).problems).toHaveLength(1)
    }
  )

  it("runs a block with `only` in its setting and skips it in the other, with its output", () => {
    const page = ["<!-- only: clone: the repository's own script -->", ...sh("pnpm start"), ...text("up")].join("\n")
    expect(planOf(page, "clone").steps.map(({ kind }) => kind)).toEqual(["shell", "output"])
    expect(planOf(page, "packages").steps.map(({ kind }) => kind)).toEqual(["skip", "skip"])
  })

  it("compares the output with the program that runs in this setting", () => {
    const page = [
      "<!-- only: clone: the repository's own script -->",
      "<!-- background: up -->",
      ...sh("pnpm start"),
      "<!-- only: packages: the clone has a script -->",
      "<!-- background: up -->",
      ...sh("stint serve"),
      "<!-- interrupt -->",
      ...text("down")
    ].join("\n")
    expect(planOf(page, "clone").steps.map(({ kind }) => kind)).toEqual(["shell", "skip", "output"])
    expect(planOf(page, "packages").steps.map(({ kind }) => kind)).toEqual(["skip", "shell", "output"])
  })

  it("rejects an unknown comment", () => {
    expect(problemsOf("<!-- skipped: needs a GPU to run -->", ...sh("true"))).toEqual([expect.stringContaining("`skipped`")])
  })

  it("rejects blocks that would not run: an output without a command, an unknown language, a module whose names have no values", () => {
    expect(problemsOf(...text("an output"))).toEqual([expect.stringContaining("No block before this one")])
    expect(problemsOf(...sh("true"), "## Next", ...text("an output"))).toHaveLength(1)
    expect(problemsOf("```console", "an output", "```")).toEqual([expect.stringContaining("`$ `")])
    expect(problemsOf("```python", "print(1)", "```")).toEqual([expect.stringContaining("`python`")])
    expect(problemsOf("<!-- given", "declare const x: number", "-->", "```ts", "console.log(x)", "```")).toEqual([
      expect.stringContaining("declares a name without a value")
    ])
  })
})

describe("comparing", () => {
  it("lets … stand for text within a line, and a line that contains only … for any number of lines", () => {
    expect(isText(["a … c", "…", "z"], "a b c\n1\n2\nz\n")).toBe(true)
    expect(isText(["a … c", "…", "z"], "a b c\nz\n")).toBe(true)
    expect(isText(["a … c"], "a c\n")).toBe(false)
    expect(isText(["a.c"], "abc\n")).toBe(false)
    expect(isText(["a"], "a\nb\n")).toBe(false)
  })

  it.each([
    [{ a: 1 }, { a: 1, b: 2 }, "also has the key \"b\""],
    [{ a: 1 }, {}, "no key \"a\""],
    [[1, 2], [1], "1 items"],
    [{ a: [{ b: 1 }] }, { a: [{ b: 2 }] }, "a[0].b is 2"],
    ["x-…", "y-1", "is \"y-1\""],
    [{ id: "x" }, { id: 4 }, "another type"]
  ])("names the difference between %j and %j", (expected, actual, message) => {
    expect(jsonDifference(expected, actual, varyingOf("id"))).toContain(message)
  })

  it("rejects an invalid list of varying keys", () => {
    expect(() => varyingOf("time 1 to 9")).toThrow("must be a list of keys")
  })
})
