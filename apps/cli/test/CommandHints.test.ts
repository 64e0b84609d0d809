/**
 * The commands that error messages, logs and pages name exist, with the flags that they name.
 *
 * Reads the commands from the texts of the sources and of the documentation, and compares them with the help of every command.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { CliOutput, Command, type HelpDoc } from "effect/cli"
import * as Effect from "effect/Effect"
import { globSync, readFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { beforeAll, describe, expect, it } from "vitest"
import { pagesOf } from "../../../scripts/doc-blocks.ts"
import { command } from "../src/Cli.ts"

const root = resolve(import.meta.dirname, "../../..")
const program = Command.runWith(command, { version: "0" })

/** What a command takes. */
interface Known {
  readonly subcommands: ReadonlySet<string>
  /** With their dashes. `true`: a word after the flag is its value. */
  readonly flags: ReadonlyMap<string, boolean>
  /** How many words it takes that are neither flags nor values of flags. */
  readonly words: number
}

const knownOf = (help: HelpDoc.HelpDoc): Known => ({
  subcommands: new Set((help.subcommands ?? []).flatMap(({ commands }) => commands.map(({ name }) => name))),
  flags: new Map(
    [...help.flags, ...help.inheritedFlags ?? [], ...help.globalFlags ?? []].flatMap(({ aliases, name, type }) => {
      const takesValue = type !== "boolean"
      const negated = takesValue ? [] : [`--no-${name}`]
      return [`--${name}`, ...negated, ...aliases].map((flag) => [flag, takesValue] as const)
    })
  ),
  words: (help.args ?? []).reduce((sum, { variadic }) => sum + (variadic ? Infinity : 1), 0)
})

/** Every command, by its words. */
const readTree = async (): Promise<ReadonlyMap<string, Known>> => {
  const tree = new Map<string, Known>()
  const read = async (path: ReadonlyArray<string>): Promise<void> => {
    const name = ["stint", ...path].join(" ")
    const presenter: CliOutput.Presenter = {
      present: (event) => Effect.sync(() => void (event._tag === "Help" && tree.set(name, knownOf(event.helpDoc))))
    }
    await Effect.runPromise(
      program([...path, "--help"]).pipe(
        Effect.provide(NodeServices.layer),
        Effect.provideService(CliOutput.Presenter, presenter)
      )
    )
    for (const subcommand of tree.get(name)?.subcommands ?? []) await read([...path, subcommand])
  }
  await read([])
  return tree
}

/** A command line in a text, without `stint`. */
interface Mention {
  readonly at: string
  readonly line: string
  /** Nothing but the command line is in the quotes. Otherwise, a sentence may continue after it. */
  readonly isWhole: boolean
}

/** Stands for a value that the program inserts. */
const VALUE = "VALUE"
/** More words of the same kind. */
const MORE = "..."

/** The words of a command line, up to another command or a comment. */
const wordsOf = ({ isWhole, line }: Mention): ReadonlyArray<string> => {
  const words: Array<string> = []
  for (const [word] of (isWhole ? line : line.replace(/\).*/, "")).matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)) {
    if (/^(?:[|&;#>(]|\d>)/.test(word)) break
    // A usage line has brackets around what may be left out.
    words.push(/^\.{3}\]*$/.test(word) ? MORE : word.replaceAll(/^\[+|[\].,;:]+$/g, ""))
    if (/[,;]$/.test(word) || !isWhole && /[.:]$/.test(word)) break
  }
  return words
}

/** What is wrong with a command line. Undefined: nothing. */
const problemOf = (tree: ReadonlyMap<string, Known>, mention: Mention): string | undefined => {
  let path = "stint"
  let known = tree.get(path)
  let taken = 0
  let isValue = false
  for (const word of wordsOf(mention)) {
    // An inserted command or flag can be any.
    if (known === undefined || word === "--" || /^(?:VALUE|COMMAND)$/.test(word) && taken === 0 && known.words === 0) {
      return undefined
    }
    if (isValue || word === MORE) isValue = false
    else if (/^-\D/.test(word)) {
      const [flag = "", value] = word.split(/=|(?=VALUE)/, 2)
      const takesValue = known.flags.get(flag)
      if (takesValue === undefined) return `${path} has no flag ${flag}`
      isValue = takesValue && value === undefined
    } else if (taken === 0 && known.subcommands.has(word)) {
      path = `${path} ${word}`
      known = tree.get(path)
    } else {
      if (taken === 0 && known.words === 0 && known.subcommands.size > 0) return `${path} has no command ${word}`
      taken += 1
      if (mention.isWhole && taken > known.words && !mention.line.includes(VALUE)) return `${path} has no argument for ${word}`
    }
  }
  return undefined
}

const lineOf = (text: string, index: number): number => text.slice(0, index).split("\n").length

/** The command lines of a page: in backticks, and at the beginning of the lines of blocks. */
const mentionsOfPage = (text: string, page: string): ReadonlyArray<Mention> =>
  [/`stint ([^`]+)`/g, /^ *(?:\$ )?(?:npx )?stint ((?:\\\n|.)+)/gm].flatMap((pattern) =>
    [...text.matchAll(pattern)].map(({ 1: line = "", index }) => ({
      at: `${page}:${lineOf(text, index)}`,
      // A column of explanations follows after two spaces.
      line: line.replaceAll(/\\\n\s*/g, " ").replace(/^((?:"[^"]*"|'[^']*'|[^"'])*?) {2,}.*/, "$1"),
      isWhole: true
    }))
  )

/** Texts in which `stint` is the program, its user or a table's column, and not the beginning of a command line. */
const NO_COMMAND = /^(?:on both machines|cannot run on|without installing|worker keys"|secrets key\\n|stint )/

const ESCAPED_BACKTICK = "\uE000"

/** The command lines of a source file, in its texts and comments. Outside backticks, they end with a punctuation mark or with the text. */
const mentionsOfSource = (source: string, file: string): ReadonlyArray<Mention> => {
  let text = source.replaceAll("\\`", ESCAPED_BACKTICK)
  // A template in a template is inserted first. The lines keep their numbers.
  const inserted = (value: string) => VALUE + "\uE001".repeat(value.split(/[\n\uE001]/).length - 1)
  for (let before = ""; before !== text;) {
    before = text
    text = text.replaceAll(/\$\{[^{}]*\}/g, inserted)
  }
  text = text.replaceAll(/["`]\s*\+\s*["`]/g, (joint) => inserted(joint).slice(VALUE.length))
  return [...text.matchAll(/(["`\uE000]?)\bstint ([a-z-](?:\\"|[ =]"[^`"\n+]*"|[^`\uE000"\n])+)(["`\uE000]?)/g)].flatMap(
    ({ 1: before, 2: line = "", 3: after, index }) =>
      NO_COMMAND.test(line + after) ? [] : [{
        at: `${file}:${lineOf(text.replaceAll("\uE001", "\n"), index)}`,
        line: line.replaceAll("\uE001", "").replaceAll("\\\"", "\"").replace(/(?:\\n|<\/|\*\/).*/, ""),
        isWhole: before !== "" && before === after
      }]
  )
}

const problemsOf = (
  tree: ReadonlyMap<string, Known>,
  read: (text: string, file: string) => ReadonlyArray<Mention>,
  files: ReadonlyArray<string>
): { readonly count: number; readonly problems: ReadonlyArray<string> } => {
  const mentions = files.flatMap((file) => read(readFileSync(join(root, file), "utf8"), file))
  const problems = mentions.flatMap((mention) => {
    const problem = problemOf(tree, mention)
    return problem === undefined ? [] : [`${mention.at}: ${problem} (stint ${mention.line})`]
  })
  return { count: mentions.length, problems }
}

describe("commands in texts", () => {
  let tree: ReadonlyMap<string, Known>
  beforeAll(async () => {
    tree = await readTree()
  })

  it("exist, with their flags, in the texts of the sources", () => {
    const files = globSync(["apps/*/src/**/*.{ts,tsx}", "packages/*/src/**/*.ts"], { cwd: root })
    const { count, problems } = problemsOf(tree, mentionsOfSource, files)
    expect(problems).toEqual([])
    expect(count).toBeGreaterThan(300)
  })

  it("exist, with their flags and arguments, on the pages", () => {
    // The records of decisions also name commands that were not made.
    const { count, problems } = problemsOf(
      tree,
      mentionsOfPage,
      pagesOf(root).filter((page) => !page.startsWith("docs/decisions/"))
    )
    expect(problems).toEqual([])
    expect(count).toBeGreaterThan(400)
  })

  it("are found in every form of text, and are compared with the commands", () => {
    const problemsIn = (source: string) => mentionsOfSource(source, "file").map((mention) => problemOf(tree, mention))
    expect(problemsIn("const hint = \"Deploy it: stint deploy ENDPOINT --image IMAGE\"")).toEqual([
      "stint deploy has no flag --image"
    ])
    expect(problemsIn("`Run it (stint workers show ${\n  id\n}), or set --image.`")).toEqual([
      "stint workers has no command show"
    ])
    expect(problemsIn("/** See `stint health ENDPOINT WORKER`. */")).toEqual(["stint health has no argument for WORKER"])
    expect(problemsIn("`stint keys ` +\n  `rotate ${key} --grace \"0 seconds\" --json --force`")).toEqual([
      "stint keys rotate has no flag --force"
    ])
    expect(problemsIn("'' + `See: stint releases show ${endpoint} ${number}. Then --force it.`")).toEqual([undefined])
  })
})
