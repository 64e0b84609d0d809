/**
 * The fingerprint of an error: two failures have the same fingerprint if they probably have the same cause.
 *
 * ```
 *   {"error_type": "KeyError",                               type     KeyError
 *    "error_message": "no user 'ann' in /data/7f/users.json"  message  no user <value> in <path>
 *    "error_traceback": "... at find (/app/users.ts:12:7)"}   frames   find (users.ts)
 *                                                             ------------------------- SHA-256, first 16 digits
 * ```
 *
 * Values that differ between two occurrences of a fault are replaced: quoted values, addresses, paths, times, ids, numbers. Parts that differ between
 * releases of a program are omitted: folders, lines and columns. Frames of packages and of the runtime are omitted too, because they say little about
 * the fault and change with every update.
 *
 * The cost is linear: at most {@link MAX_READ} characters are read, and no expression here can backtrack over more than one token.
 */
import { hash } from "node:crypto"

/** An error without the parts that differ from run to run. */
export interface ErrorIdentity {
  /** 16 hexadecimal digits. */
  readonly fingerprint: string
  /** The class of the error; null for an error that is not an exception. */
  readonly type: string | null
  readonly message: string
  /** The innermost frames of the handler's own code, innermost first: `function (file)`. */
  readonly frames: ReadonlyArray<string>
}

/** The names that a run adds to its error. They are replaced wherever they occur. */
export interface RunNames {
  readonly job: string
  readonly worker: string | null
}

/** Limits: the characters read from an error, its message, its type and a frame, and the number of frames. */
const MAX_READ = 32_768
const MAX_MESSAGE = 2_000
const MAX_TYPE = 200
const MAX_FRAME = 200
const MAX_FRAMES = 3
/** The maximum length of the message after values are replaced, in characters. */
const MAX_SHAPE = 500

/** The text of a string in an exception's JSON, which may be truncated anywhere. */
const member = (json: string, name: string): string | undefined => {
  const found = new RegExp(`"${name}"\\s*:\\s*"((?:[^"\\\\]|\\\\(?:u[0-9a-fA-F]{4}|[^u]))*)`).exec(json)?.[1]
  if (found === undefined) return undefined
  try {
    return String(JSON.parse(`"${found}"`))
  } catch {
    // A control character, which JSON does not permit in a string.
    return found
  }
}

interface Parts {
  readonly type: string | null
  readonly message: string
  readonly traceback: string
}

/** The parts of an error in each of its forms (docs/spec/handler.md#exceptions, docs/spec/worker-protocol.md#result-bodies). */
const partsOf = (error: string): Parts => {
  if (error.startsWith("{")) {
    const message = member(error, "error_message")
    const type = member(error, "error_type")
    if (message !== undefined && type !== undefined) {
      return {
        type: type.replace(/^<class '(.*)'>$/, "$1").slice(0, MAX_TYPE),
        message,
        traceback: member(error, "error_traceback") ?? ""
      }
    }
  }
  const at = error.indexOf("\ntraceback: ")
  return at === -1
    ? { type: null, message: error, traceback: "" }
    : { type: null, message: error.slice(0, at), traceback: error.slice(at) }
}

/** What is replaced, by its name. The order matters: the first alternative that matches wins. */
const VALUE = new RegExp(
  [
    /(?<url>(?<![\w.+-])[a-z][a-z0-9+.-]*:\/\/[^\s"'`<>)\]]+)/,
    /(?<email>(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w)/,
    /(?<uuid>(?<!\w)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?!\w))/,
    /(?<time>(?<!\w)\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?(?!\w))/,
    // A value without a closing quote ends at the end of the message.
    /(?<value>(?<!\w)(?:'[^'\n]*(?:'(?!\w)|$)|"[^"\n]*(?:"|$)|`[^`\n]*(?:`|$)))/,
    /(?<path>(?<![\w/\\])(?:[a-z]:|~|\.{1,2})?(?:[\\/][^\s\\/:"'`<>|,;()]+)+[\\/]?(?::\d+)*)/,
    /(?<hex>(?<!\w)(?:0x[0-9a-f]+|(?=[a-f]*\d)[0-9a-f]{8,})(?!\w)(?:[.:,]\d+)*)/,
    /(?<word>(?<![\w-])(?=[a-z_-]*\d)[\w-]+(?:[.:,]\d+)*)/
  ].map(({ source }) => source).join("|"),
  "gi"
)

/**
 * A word with a digit is an id if it has at least this length. A shorter one is an id if it has several groups of digits: `9s6XKz`, but not `utf8`.
 */
const MIN_ID = 16

/**
 * A word with digits: a number, a name with a number, or an id. Numbers and ids get the same name, because some ids consist of digits only.
 */
const wordShape = (word: string): string => {
  if (/^-?\d+(?:[.:,-]\d+)*$/.test(word)) return "<n>"
  const [name = ""] = /^[\w-]*/.exec(word) ?? []
  const groups = name.match(/\d+/g)?.length ?? 0
  return groups > 1 || name.length >= MIN_ID ? "<n>" : word.replace(/\d+(?:[.:,]\d+)*/g, "<n>")
}

/** The suffixes that the platform adds to the error of a last attempt (`failAttempt` in JobMachine.ts). One fault can have several of them. */
const LAST_ATTEMPT = / This was (?:the only attempt allowed|attempt \d+ of \d+[^.]*)\.$/

/** A message without values. */
const shapeOf = (message: string, { job, worker }: RunNames): string => {
  let text = message.replace(LAST_ATTEMPT, "").slice(0, MAX_MESSAGE)
  // Worker ids can have any form. A short one could be part of an ordinary word.
  if (worker !== null && worker.length > 2) text = text.replaceAll(worker, "<worker>")
  text = text.replaceAll(job, "<job>")
  const shape = text.replace(VALUE, (...found) => {
    const groups: unknown = found.at(-1)
    const entries = typeof groups === "object" && groups !== null ? Object.entries(groups) : []
    const [name = "value", text = ""] = entries.find(([, value]) => value !== undefined) ?? []
    return name === "word" ? wordShape(String(text)) : name === "hex" ? "<n>" : `<${name}>`
  })
  return shape.replace(/[\s\p{Cc}]+/gu, " ").trim().slice(0, MAX_SHAPE)
}

/** A line of a JavaScript stack trace: `at async find (file:///app/users.ts:12:7)`, `at /app/users.ts:12:7`. */
const JS_FRAME = /^\s*at (?:async )?(?:(?<name>[^()\n]*?) \()?(?<file>[^()\n]+?):\d+(?::\d+)?\)?$/

/** A line of a Python traceback: `File "/app/users.py", line 12, in find`. */
const PYTHON_FRAME = /^\s*File "(?<file>[^"\n]*)", line \d+(?:, in (?<name>.*))?$/

/** The code of the runtime and of packages. */
const FOREIGN =
  /^node:|^<|^internal\/|[\\/](?:node_modules|site-packages|dist-packages|lib[\\/]python\d[\d.]*|packages[\\/]worker[\w-]*)[\\/]/

/** The frames of the handler's own code. Python prints the innermost frame last. */
const framesOf = (traceback: string): ReadonlyArray<string> => {
  const lines = traceback.split("\n")
  const isPython = lines.some((line) => PYTHON_FRAME.test(line.slice(0, 1_000)))
  const frames: Array<string> = []
  for (const line of isPython ? lines.reverse() : lines) {
    if (frames.length === MAX_FRAMES) break
    const { file = "", name = "" } = (isPython ? PYTHON_FRAME : JS_FRAME).exec(line.slice(0, 1_000))?.groups ?? {}
    if (file === "" || FOREIGN.test(file)) continue
    // A file name may contain a hash from the build.
    const base = (file.split(/[\\/]/).at(-1) ?? "").replace(/[-.](?=[a-z]*\d)[0-9a-z]{6,}(?=\.)/i, "")
    const frame = `${name.trim() === "" ? "<anonymous>" : name.trim()} (${base})`
    frames.push(frame.replace(/\p{Cc}/gu, " ").slice(0, MAX_FRAME))
  }
  return frames
}

/** The identity of an error. `names`: the names that its run added to it. */
export const identify = (error: string, names: RunNames): ErrorIdentity => {
  const { message, traceback, type } = partsOf(error.slice(0, MAX_READ))
  const shape = shapeOf(message, names)
  const frames = framesOf(traceback)
  const cleanType = type === null ? null : type.replace(/[\s\p{Cc}]+/gu, " ")
  return {
    fingerprint: hash("sha256", JSON.stringify([1, cleanType, shape, frames]), "hex").slice(0, 16),
    type: cleanType,
    message: shape,
    frames
  }
}

/** The maximum length of {@link briefError}, in characters. */
const MAX_BRIEF = 500

/** The type and the message of an error in one text, without its traceback. */
export const briefError = (error: string): string => {
  const { message, type } = partsOf(error.slice(0, MAX_READ))
  return (type === null || type === "" ? message : `${type}: ${message}`).slice(0, MAX_BRIEF)
}
