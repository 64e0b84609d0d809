/**
 * Records the terminal picture in the README: `node scripts/record-terminal.ts` writes docs/pictures/terminal.svg.
 *
 * It runs the commands below in a pseudo-terminal (`script` of util-linux) with a new data folder and a new key, and draws their output.
 * It changes only what would differ on each machine: the key, and the paths of the clone and the configuration folder. Record it again when
 * the output of these commands has changed. PORT must be free; 4600, the default, is the port in the picture.
 */
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { root } from "./workspace.ts"

const COLUMNS = 104
const LINE_HEIGHT = 19
const CHARACTER_WIDTH = 7.83

const START = "npx -y pnpm@12 start"
const STINT = "npx -y pnpm@12 --silent stint"
const CALLS = [
  "stint run hello --input '{\"name\":\"Ada\"}' --sync",
  "stint run countdown --input '{\"from\":3}' --stream",
  "stint endpoints list"
]

const folder = mkdtempSync(join(tmpdir(), "stint-terminal-"))
const environment = {
  ...process.env,
  CI: undefined,
  NO_COLOR: undefined,
  FORCE_COLOR: undefined,
  STINT_API_KEY: undefined,
  TERM: "xterm-256color",
  XDG_CONFIG_HOME: join(folder, "config"),
  STINT_DATA_DIR: join(folder, "data"),
  // Suppresses npm's warnings about the configuration of this machine.
  npm_config_loglevel: "error",
  npm_config_update_notifier: "false",
  npm_config_progress: "false",
  // As root, the platform warns that handlers are root too.
  ...(process.getuid?.() === 0 ? { STINT_WORKER_USER: "nobody" } : {})
}

const shell = (command: string): ReadonlyArray<string> => [
  "-qefc",
  `stty cols ${COLUMNS} rows 50; exec bash -c ${JSON.stringify(command).replaceAll("$", "\\$").replaceAll("`", "\\`")}`,
  "/dev/null"
]

/** Replaces what differs on each machine. */
const masked = (text: string): string =>
  text.replaceAll(join(folder, "config"), "~/.config")
    .replaceAll(join(folder, "data"), "~/stint/.stint")
    .replaceAll(root, "~/stint")
    .replaceAll(/stint_[\w-]{8,}/g, "stint_…")

/** Runs a command in a terminal and returns what it prints. */
const output = (command: string): string => {
  const { status, stdout } = spawnSync("script", [...shell(command)], {
    cwd: root,
    env: environment,
    encoding: "utf8",
    input: ""
  })
  if (status !== 0) throw new Error(`${command} failed with status ${status}:\n${stdout}`)
  return stdout
}

/** Starts the platform, runs a function once it has printed its curl command, and stops it as Ctrl-C does. */
const withPlatform = async (use: (printed: string) => void): Promise<void> => {
  const platform = spawn("script", [...shell(START)], { cwd: root, env: environment, stdio: ["pipe", "pipe", "inherit"] })
  const exited = once(platform, "exit")
  let printed = ""
  platform.stdout.setEncoding("utf8")
  for await (const text of platform.stdout.iterator({ destroyOnReturn: false })) {
    printed += text
    if (/curl .*'\r?\n/.test(printed)) break
  }
  try {
    if (!printed.includes("curl ")) throw new Error(`The platform did not start:\n${printed}`)
    platform.stdout.resume()
    use(printed)
  } finally {
    platform.stdin.write("\u0003")
    await exited
  }
}

interface Span {
  readonly style: string
  readonly text: string
}

const STYLES: Readonly<Record<string, string>> = {
  1: "bold",
  2: "dim",
  31: "red",
  32: "green",
  33: "yellow",
  34: "blue",
  35: "magenta",
  36: "cyan",
  90: "dim",
  91: "red",
  92: "green",
  93: "yellow",
  94: "blue",
  95: "magenta",
  96: "cyan"
}

const ESCAPE = "\u001B"
const SEQUENCE = new RegExp(`(${ESCAPE}\\[[0-9;?]*[A-Za-z])`)
const COLOURS = new RegExp(`^${ESCAPE}\\[([0-9;]*)m$`)

/** Splits terminal output into lines of styled text. Control sequences other than colours are dropped. */
const linesOf = (text: string): ReadonlyArray<ReadonlyArray<Span>> => {
  let styles: ReadonlyArray<string> = []
  const lines = text.replaceAll("\r\n", "\n").split("\n").map((line) => {
    const spans: Array<Span> = []
    // After a carriage return, the line starts again.
    for (const part of line.split("\r").at(-1)?.split(SEQUENCE) ?? []) {
      const codes = COLOURS.exec(part)?.[1]
      if (codes !== undefined) {
        for (const code of codes.split(";")) {
          const style = STYLES[code]
          styles = style === undefined ? [] : [...styles, style]
        }
      } else if (part !== "" && !part.startsWith(ESCAPE)) spans.push({ style: styles.join(" "), text: part })
    }
    return spans
  })
  return lines.slice(0, lines.findLastIndex((spans) => spans.length > 0) + 1)
}

/** Breaks a line at the width of the terminal. */
const wrapped = (spans: ReadonlyArray<Span>): ReadonlyArray<ReadonlyArray<Span>> => {
  const lines: Array<Array<Span>> = [[]]
  let column = 0
  for (const { style, text } of spans) {
    for (const character of text) {
      if (column === COLUMNS) {
        lines.push([])
        column = 0
      }
      const line = lines.at(-1) ?? []
      const last = line.at(-1)
      if (last?.style === style) line[line.length - 1] = { style, text: last.text + character }
      else line.push({ style, text: character })
      column++
    }
  }
  return lines
}

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")

/** Draws the lines in a window. */
const draw = (lines: ReadonlyArray<ReadonlyArray<Span>>): string => {
  const width = Math.ceil(COLUMNS * CHARACTER_WIDTH) + 40
  const height = lines.length * LINE_HEIGHT + 72
  const texts = lines.map((spans, index) => {
    let column = 0
    const parts = spans.map(({ style, text }) => {
      const x = (20 + column * CHARACTER_WIDTH).toFixed(1)
      const length = (text.length * CHARACTER_WIDTH).toFixed(1)
      column += text.length
      if (text.trim() === "") return ""
      // The explicit length keeps columns aligned in every font.
      return `<tspan x="${x}" textLength="${length}"${style === "" ? "" : ` class="${style}"`}>${escaped(text)}</tspan>`
    })
    return parts.join("") === "" ? "" : `<text y="${62 + index * LINE_HEIGHT}" xml:space="preserve">${parts.join("")}</text>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="t">
<title id="t">A terminal in which the platform starts and runs jobs</title>
<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;fill:#d7dce4;white-space:pre}.bold{font-weight:700}.dim{fill:#8b95a5}.red{fill:#ff8f85}.green{fill:#7ee2a0}.yellow{fill:#f2cc76}.blue{fill:#86b9ff}.magenta{fill:#dba6ff}.cyan{fill:#7fd9e6}.prompt{fill:#7ee2a0;font-weight:700}.typed{fill:#fff;font-weight:600}</style>
<rect x=".5" y=".5" width="${width - 1}" height="${height - 1}" rx="9" fill="#12161d" stroke="#3a4250"/>
<circle cx="20" cy="19" r="6" fill="#ff5f57"/><circle cx="40" cy="19" r="6" fill="#febc2e"/><circle cx="60" cy="19" r="6" fill="#28c840"/>
${texts.filter((text) => text !== "").join("\n")}
</svg>
`
}

const typed = (command: string): ReadonlyArray<Span> => [{ style: "prompt", text: "$ " }, { style: "typed", text: command }]

try {
  await withPlatform((printed) => {
    const session = [typed(START), ...linesOf(masked(printed)), [], typed(`alias stint='${STINT}'`)]
    for (const call of CALLS) session.push(typed(call), ...linesOf(masked(output(call.replace("stint", STINT)))), [])
    writeFileSync(join(root, "docs/pictures/terminal.svg"), draw(session.slice(0, -1).flatMap(wrapped)))
  })
} finally {
  rmSync(folder, { recursive: true, force: true })
}
