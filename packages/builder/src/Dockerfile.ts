/**
 * Reads from a Dockerfile what the checks need: base images and copied files. Pure. Unknown instructions are skipped, because the engine decides what
 * is valid.
 */

/** A Dockerfile. */
export interface Dockerfile {
  /** The images of `FROM`, without stages and without names that contain variables. */
  readonly bases: ReadonlyArray<string>
  /** The sources of `COPY` and `ADD` in the build context, without patterns and variables. */
  readonly copied: ReadonlyArray<string>
}

interface Instruction {
  readonly name: string
  readonly rest: string
}

const instructionsOf = (text: string): ReadonlyArray<Instruction> => {
  const found: Array<Instruction> = []
  let open = ""
  let heredoc: string | undefined
  for (const line of text.split(/\r?\n/)) {
    if (heredoc !== undefined) {
      if (line.trim() === heredoc) heredoc = undefined
      continue
    }
    if (/^\s*#/.test(line) || (open === "" && line.trim() === "")) continue
    const isContinued = /\\\s*$/.test(line)
    open += isContinued ? `${line.replace(/\\\s*$/, "")} ` : line
    if (isContinued) continue
    const [, name = "", rest = ""] = /^\s*([A-Za-z]+)\s+(.*)$/s.exec(open) ?? []
    found.push({ name: name.toUpperCase(), rest: rest.trim() })
    heredoc = /<<-?\s*["']?(\w+)["']?/.exec(open)?.[1]
    open = ""
  }
  return found
}

/** The arguments without flags. */
const words = (rest: string): ReadonlyArray<string> => {
  const text = rest.replace(/^(?:--\S+\s+)+/, "")
  if (text.startsWith("[")) {
    try {
      const parsed: unknown = JSON.parse(text)
      if (Array.isArray(parsed)) return parsed.map(String)
    } catch {
      // The JSON form is not parsed here.
    }
  }
  return text.split(/\s+/).filter((word) => word !== "").map((word) => word.replaceAll(/^["']|["']$/g, ""))
}

const isPlainSource = (source: string): boolean => !/[$*?[\]]|^\w+:\/\/|^git@|^<</.test(source)

/** Removes `./`, `/` at the beginning and the end, and empty segments. */
export const normal = (path: string): string => path.split("/").filter((segment) => segment !== "" && segment !== ".").join("/")

/** Reads the text of a Dockerfile. */
export const parse = (text: string): Dockerfile => {
  const stages = new Set<string>(["scratch"])
  const bases = new Set<string>()
  const copied = new Set<string>()
  for (const { name, rest } of instructionsOf(text)) {
    if (name === "FROM") {
      const [image = "", as, stage] = words(rest)
      if (!stages.has(image.toLowerCase()) && image !== "" && !image.includes("$")) bases.add(image)
      if (as?.toUpperCase() === "AS" && stage !== undefined) stages.add(stage.toLowerCase())
    }
    if ((name === "COPY" || name === "ADD") && !/(?:^|\s)--from=/.test(rest)) {
      for (const source of words(rest).slice(0, -1)) if (isPlainSource(source)) copied.add(normal(source))
    }
  }
  return { bases: [...bases], copied: [...copied] }
}
