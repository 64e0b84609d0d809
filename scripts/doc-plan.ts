/**
 * Decides what doc-runner.ts does with each code block of a page. Every block runs, unless a comment before it gives a reason.
 *
 * | language          | what happens                                                                                       |
 * | ----------------- | -------------------------------------------------------------------------------------------------- |
 * | `sh`              | runs in the page's shell, which keeps its folder, variables and aliases from block to block        |
 * | `console`         | a transcript: lines that start with `$ ` run, and the lines below each are its output              |
 * | `ts`              | runs as a module: `node $FILE`                                                                     |
 * | `json`, `text`, none | the complete output of the block before it in the same section; `…` stands for text that varies |
 * | any other         | must be saved, run or skipped by a comment                                                         |
 *
 * | comment before the block        | effect                                                                                       |
 * | ------------------------------- | -------------------------------------------------------------------------------------------- |
 * | `<!-- file: hello.ts -->`       | saved under this name in the shell's folder, as shown; runs only with `run`                  |
 * | `<!-- run: python3 $FILE -->`   | this shell command runs the block; `$FILE` is its file, `$FOLDER` its folder, `$EXAMPLES` the folder of the examples |
 * | `<!-- background: text -->`     | does not end; the next block runs when it has printed the text. Ends with the page           |
 * | `<!-- interrupt -->`            | before an output: Ctrl-C is sent to the background program, and this is what it prints then  |
 * | `<!-- prints -->`               | before an output: the background program prints it, not the previous block                |
 * | `<!-- stdout -->`               | its output on stderr, such as its progress, is not compared                                  |
 * | `<!-- exit: 1 -->`              | must end with this exit code instead of 0                                                    |
 * | `<!-- replace: a => b -->`      | runs with `b` in place of `a`. For placeholders such as `<address>`                          |
 * | `<!-- varies: id, ms 1..90 -->` | before JSON: values that differ on each run, with the range of a number                      |
 * | `<!-- only: clone: reason -->`  | runs in this setting only: `clone`, or `packages`                                            |
 * | `<!-- skip: reason -->`         | never runs                                                                                   |
 * | `<!-- start: empty -->`         | anywhere: the page starts in an empty folder, and not in the clone or the project. With `empty clone` or `empty packages`, in this setting only |
 *
 * The lines of a `<!-- shell` comment run like an `sh` block that readers do not see. They do what the reader has already done on an earlier page.
 */
import { globSync } from "node:fs"
import { type Fence, fencesOf, markOf } from "./doc-blocks.ts"

/** Where the pages run: in a clone of the repository, or in a project with the packed packages. */
export type SettingName = "clone" | "packages"

/** What happens to a block. */
export type Step =
  | { readonly kind: "shell" | "console" | "module" | "save" | "output"; readonly fence: Fence }
  | { readonly kind: "skip"; readonly fence: Fence; readonly reason: string }

/** The steps of a page, and the mistakes in its comments, each with its line number. */
export interface Plan {
  readonly steps: ReadonlyArray<Step>
  readonly problems: ReadonlyArray<string>
  readonly startsEmpty: boolean
}

const marks = new Set([
  "file",
  "follows",
  "run",
  "background",
  "interrupt",
  "prints",
  "stdout",
  "exit",
  "replace",
  "varies",
  "only",
  "skip",
  "start"
])

const isReason = (text: string) => text.split(/\s+/).filter((word) => word !== "").length >= 3

/** Plans a page for one setting. */
export const planOf = (source: string, setting: SettingName): Plan => {
  const steps: Array<Step> = []
  const problems: Array<string> = []
  const fences = fencesOf(source)

  /** The step whose output the next block may show. */
  let before: Step | undefined
  let background: Step | undefined
  for (const fence of fences) {
    const problem = (text: string) => problems.push(`line ${fence.first}: ${text}`)
    for (const [name] of fence.marks) {
      if (!marks.has(name)) problem(`The comment \`${name}\` has no meaning. scripts/doc-plan.ts lists the comments.`)
    }
    const step = stepOf(fence, isOfBackground(fence) ? background : before, setting, problem)
    steps.push(step)
    if (markOf(fence, "background") !== undefined && (background === undefined || step.kind !== "skip")) background = step
    before = step.kind === "output" || isOutput(fence) ? undefined : step
    if (step.kind === "module") {
      const declared = fence.given.find(([, line]) => line.startsWith("declare "))
      if (declared !== undefined) {
        problem(`The hidden line ${declared[0] + 1} declares a name without a value, so the block cannot run. Define the name.`)
      }
    }
  }
  return {
    steps,
    problems,
    startsEmpty: fences.some((fence) => ["empty", `empty ${setting}`].includes(markOf(fence, "start") ?? ""))
  }
}

const isOutput = ({ language }: Fence) => language === "json" || language === "text" || language === ""

const isOfBackground = (fence: Fence) => markOf(fence, "interrupt") !== undefined || markOf(fence, "prints") !== undefined

const stepOf = (fence: Fence, before: Step | undefined, setting: SettingName, problem: (text: string) => void): Step => {
  const skip = markOf(fence, "skip")
  if (skip !== undefined) {
    if (!isReason(skip)) problem("A skipped block needs a reason of three words or more: `<!-- skip: reason -->`.")
    return { kind: "skip", fence, reason: skip }
  }
  const only = markOf(fence, "only")
  if (only !== undefined) {
    const [, name, reason = ""] = /^(clone|packages): *(.*)$/.exec(only) ?? []
    if (name === undefined || !isReason(reason)) {
      problem("Say in which setting the block runs, and why only there: `<!-- only: clone: reason -->`.")
    }
    if (name !== setting) return { kind: "skip", fence, reason: `only ${name ?? ""}: ${reason}` }
  }
  if (markOf(fence, "run") !== undefined) return { kind: "module", fence }
  if (markOf(fence, "file") !== undefined) return { kind: "save", fence }
  if (fence.language === "sh") return { kind: "shell", fence }
  if (fence.language === "console") {
    if (!fence.lines.some((line) => line.startsWith("$ "))) {
      problem("A `console` block needs a line that starts with `$ `. Use `text` for the output of the block before.")
    }
    return { kind: "console", fence }
  }
  if (fence.language === "ts") return { kind: "module", fence }
  if (!isOutput(fence)) {
    problem(`Nothing is known about running \`${fence.language}\`. Add a comment: \`file\`, \`run\` or \`skip\` with a reason.`)
    return { kind: "skip", fence, reason: "" }
  }
  const isNear = before?.fence.section === fence.section || isOfBackground(fence)
  if (before === undefined || !isNear || before.kind === "console") {
    problem("No block before this one in its section prints it. Add a comment: `file`, or `skip` with a reason.")
    return { kind: "skip", fence, reason: "" }
  }
  return before.kind === "skip" ? { kind: "skip", fence, reason: before.reason } : { kind: "output", fence }
}

/** The pages whose blocks run, relative to the root of the workspace. */
export const runPagesOf = (root: string): ReadonlyArray<string> =>
  globSync(
    ["README.md", "docs/introduction/*.md", "docs/learning/*.md", "docs/operations/{alerts,audit,deploy,errors,usage}.md"],
    {
      cwd: root
    }
  )
    .toSorted()
