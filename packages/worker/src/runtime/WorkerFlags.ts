/**
 * Parses the command line of local test mode (docs/spec/local-test-mode.md#flags).
 *
 * | flag | default | effect |
 * |---|---|---|
 * | `--test_input JSON` | `test_input.json` | the one job to run |
 * | `--rp_serve_api` | off | serves the local API instead of running one job |
 * | `--rp_api_port N` | 8000 | its port; 0 selects a free port |
 * | `--rp_api_host ADDRESS` | 127.0.0.1 | its listen address. The local API has no keys, so any other address exposes the handler to the network |
 * | `--rp_api_concurrency N` | 1, or the result of the handler's `concurrency_modifier` | the maximum number of concurrent jobs |
 * | `--rp_log_level LEVEL` | DEBUG | read together with the variables, by `WorkerConfig` |
 * | `--rp_debugger` | off | has an effect on a deployed endpoint only |
 *
 * A flag's value is the next word or follows `=`. If a flag occurs more than once, the last occurrence applies. Flags without our prefix
 * belong to the program.
 */
import * as Result from "effect/Result"
import { didYouMean } from "./Suggestion.ts"

/** The flags without a value. */
const SWITCHES = ["--rp_serve_api", "--rp_debugger"] as const

/** The flags with a value. */
const VALUES = ["--test_input", "--rp_api_port", "--rp_api_host", "--rp_api_concurrency", "--rp_log_level"] as const

const KNOWN = [...SWITCHES, ...VALUES]

/** The prefix of all flags except `--test_input`. */
const PREFIX = "--rp_"

/** The validated flags. Undefined: not given. */
export interface WorkerFlags {
  /** `--test_input`: the job as JSON text, instead of `test_input.json`. */
  readonly testInput: string | undefined
  /** `--rp_serve_api` */
  readonly serveApi: boolean
  /** `--rp_api_port`: 0 to 65535. */
  readonly apiPort: number | undefined
  /** `--rp_api_host`: a host name or an IP address. */
  readonly apiHost: string | undefined
  /** `--rp_api_concurrency`: 1 or more. */
  readonly apiConcurrency: number | undefined
  /** `--rp_debugger` */
  readonly debugger: boolean
}

/** An invalid flag. */
export interface FlagError {
  readonly flag: string
  /** Names the flag, its value, and the valid values. */
  readonly message: string
}

/** The value of the last `--name value` or `--name=value`; empty when the command line ends after the name. */
export const valueOf = (argv: ReadonlyArray<string>, name: (typeof VALUES)[number]): string | undefined => {
  const index = argv.findLastIndex((word) => word === name || word.startsWith(`${name}=`))
  const word = argv[index]
  if (word === undefined) return undefined
  return word === name ? argv[index + 1] ?? "" : word.slice(name.length + 1)
}

/** Whether the command line has this switch. */
const hasFlag = (argv: ReadonlyArray<string>, name: (typeof SWITCHES)[number]): boolean => argv.includes(name)

/** Whether the command line requests local test mode, regardless of the variables. */
export const requestsLocalMode = (argv: ReadonlyArray<string>): boolean =>
  hasFlag(argv, "--rp_serve_api") || valueOf(argv, "--test_input") !== undefined

const flagError = (flag: string, message: string): Result.Result<never, FlagError> => Result.fail({ flag, message })

/** The whole number after a flag. */
const wholeNumber = (
  argv: ReadonlyArray<string>,
  name: "--rp_api_port" | "--rp_api_concurrency",
  minimum: number,
  maximum: number
): Result.Result<number | undefined, FlagError> => {
  const text = valueOf(argv, name)
  if (text === undefined) return Result.succeed(undefined)
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  return value >= minimum && value <= maximum
    ? Result.succeed(value)
    : flagError(name, `${name} is ${JSON.stringify(text)}; it must be a whole number from ${minimum} to ${maximum}.`)
}

/** A host name or address to listen on. Not resolved here. */
const host = (argv: ReadonlyArray<string>): Result.Result<string | undefined, FlagError> => {
  const text = valueOf(argv, "--rp_api_host")
  if (text === undefined) return Result.succeed(undefined)
  const bare = text.replace(/^\[(.*)\]$/, "$1")
  return /^[\w.:%-]+$/.test(bare) && !bare.startsWith("-") ? Result.succeed(bare) : flagError(
    "--rp_api_host",
    `--rp_api_host is ${JSON.stringify(text)}; it must be a name or an address, such as 127.0.0.1 or 0.0.0.0, without a port.`
  )
}

/** Fails on the first word with our prefix that is not a known flag. */
const unknownWord = (argv: ReadonlyArray<string>): Result.Result<void, FlagError> => {
  // The word after a flag that takes a value is always its value, even if it looks like a flag.
  let isValue = false
  for (const word of argv) {
    const name = word.split("=", 1)[0] ?? word
    const known: ReadonlyArray<string> = KNOWN
    const switches: ReadonlyArray<string> = SWITCHES
    if (!isValue && switches.includes(name) && name !== word) {
      return flagError(
        name,
        `${name} takes no value, but ${JSON.stringify(word)} was given. Leave out ${JSON.stringify(word.slice(name.length))}.`
      )
    }
    if (!isValue && name.startsWith(PREFIX) && !known.includes(name)) {
      return flagError(name, `There is no flag ${name}.${didYouMean(name, KNOWN)} The flags are ${KNOWN.join(", ")}.`)
    }
    isValue = !isValue && known.includes(word) && !switches.includes(word)
  }
  return Result.succeed(undefined)
}

/** The maximum of `--rp_api_concurrency`, because each concurrent job needs memory. */
const MAX_CONCURRENCY = 10_000

/**
 * Reads the flags of this command line, or fails on the first invalid one.
 *
 * Unknown flags with our prefix are an error in local test mode only: the start command of a platform may contain flags of other SDKs.
 */
export const read = (argv: ReadonlyArray<string>, local: boolean): Result.Result<WorkerFlags, FlagError> =>
  Result.gen(function*() {
    if (local) yield* unknownWord(argv)
    return {
      testInput: valueOf(argv, "--test_input"),
      serveApi: hasFlag(argv, "--rp_serve_api"),
      apiPort: yield* wholeNumber(argv, "--rp_api_port", 0, 65_535),
      apiHost: yield* host(argv),
      apiConcurrency: yield* wholeNumber(argv, "--rp_api_concurrency", 1, MAX_CONCURRENCY),
      debugger: hasFlag(argv, "--rp_debugger")
    }
  })
