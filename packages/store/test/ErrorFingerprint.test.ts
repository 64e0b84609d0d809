import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import { identify } from "../src/errors/ErrorFingerprint.ts"

const NAMES = { job: "0198f0a2-0000-7000-8000-00000000000a", worker: "resize-k3jx" }

const of = (error: string, names = NAMES) => identify(error, names)

/** An exception as a worker reports it. */
const exception = (type: string, message: string, traceback = "", host = "h1") =>
  JSON.stringify({
    error_type: type,
    error_message: message,
    error_traceback: traceback,
    hostname: host,
    worker_id: "w1",
    runpod_version: "1.2.3"
  })

const jsStack = (folder: string, line: number, frames: ReadonlyArray<readonly [name: string, file: string]>) =>
  ["Error: whatever", ...frames.map(([name, file]) => `    at ${name} (${folder}/${file}:${line}:7)`)].join("\n")

const hex = (length: number) =>
  fc.string({ unit: fc.constantFrom(...Array.from("0123456789abcdef")), minLength: length, maxLength: length })
const letters = (min: number, max: number) =>
  fc.string({ unit: fc.constantFrom(...Array.from("abcdefghijklmnopqrstuvwxyz")), minLength: min, maxLength: max })
/** Ids in the form that services use: letters and digits, with a digit at each end. */
const serviceId = fc.tuple(fc.nat(9), letters(3, 6), fc.nat(9), letters(3, 6), fc.nat(9)).map((parts) => `cus_${parts.join("")}`)

/** Names of workers. A name that is an ordinary word would also be replaced wherever the message contains that word. */
const worker = letters(4, 8).map((name) => `w-${name}`)

/** What differs between two runs of one fault. */
const VALUES: Readonly<Record<string, fc.Arbitrary<string>>> = {
  number: fc.oneof(fc.nat(), fc.float({ noNaN: true, min: 0, max: 1e6 }).map((one) => one.toFixed(2))).map(String),
  place: fc.tuple(fc.nat(), fc.nat()).map(([line, column]) => `${line}:${column}`),
  uuid: fc.uuid(),
  hex: hex(12).filter((one) => /\d/.test(one)),
  address: fc.nat().map((one) => `0x${one.toString(16)}`),
  id: serviceId,
  single: fc.string({ maxLength: 30 }).filter((one) => !/['\n]/.test(one)).map((one) => `'${one}'`),
  double: fc.string({ maxLength: 30 }).filter((one) => !/["\n]/.test(one)).map((one) => `"${one}"`),
  path: fc.array(fc.tuple(letters(1, 8), fc.nat(99)), { minLength: 1, maxLength: 4 })
    .map((parts) => parts.map(([name, n]) => `/${name}${n}`).join("") + ".json"),
  url: fc.tuple(letters(3, 8), fc.nat()).map(([host, n]) => `https://${host}.example/${n}?q=${n}`),
  time: fc.date({ min: new Date(0), max: new Date(4e12), noInvalidDate: true }).map((date) => date.toISOString()),
  email: fc.tuple(letters(2, 8), letters(2, 8)).map(([name, host]) => `${name}@${host}.example`)
}

/** A text with placeholders for values: `no such user {id} in {path}`. */
const template = fc.array(fc.oneof(letters(2, 9), fc.constantFrom(...Object.keys(VALUES)).map((name) => `{${name}}`)), {
  minLength: 1,
  maxLength: 12
}).map((words) => words.join(" "))

const filled = (text: string) =>
  fc.tuple(...text.split(" ").map((word) => VALUES[word.slice(1, -1)] ?? fc.constant(word))).map((words) => words.join(" "))

const frames = fc.array(fc.tuple(letters(2, 8), letters(2, 8).map((name) => `${name}.ts`)), { minLength: 1, maxLength: 5 })

describe("the fingerprint of an error", () => {
  it("property: is the same for two runs of one fault, whatever their values, folders and lines", () => {
    const runs = fc.tuple(template, letters(3, 8), frames).chain(([text, type, stack]) => {
      const run = fc.tuple(filled(text), fc.nat({ max: 9_999 }), letters(1, 8), fc.uuid(), worker).map(
        ([message, line, folder, job, worker]) => ({
          error: exception(type, message, jsStack(`/srv/${folder}`, line, stack), worker),
          names: { job, worker }
        })
      )
      return fc.tuple(run, run)
    })
    fc.assert(fc.property(runs, ([one, other]) => {
      expect(of(one.error, one.names)).toEqual(of(other.error, other.names))
    }))
  })

  it("property: differs for another class, another text and another place in the code", () => {
    fc.assert(
      fc.property(
        template,
        letters(3, 8),
        frames,
        fc.constantFrom("type", "text", "function", "file"),
        (text, type, stack, what) => {
          const [[name, file] = ["f", "f.ts"], ...rest] = stack
          const other = {
            type: what === "type" ? `${type}Error` : type,
            text: what === "text" ? `${text} zzz` : text,
            stack: [[what === "function" ? `${name}Zzz` : name, what === "file" ? `zzz${file}` : file] as const, ...rest]
          }
          const one = of(exception(type, text, jsStack("/app", 1, stack)))
          const two = of(exception(other.type, other.text, jsStack("/app", 1, other.stack)))
          expect(one.fingerprint).not.toBe(two.fingerprint)
        }
      )
    )
  })

  it.each([
    ["no user 'ann' in /data/7f/users.json at 12:7", "no user <value> in <path> at <n>"],
    ["can't open \"a b\" or `c`", "can't open <value> or <value>"],
    ["the job cus_9s6XKzkNRiz8i3 of 0198f0a2-1111-7000-8000-00000000000b is gone", "the job <n> of <uuid> is gone"],
    ["connect ECONNREFUSED 10.0.0.1:5432 after 30.5 s", "connect ECONNREFUSED <n> after <n> s"],
    ["HTTP 404 from https://a.b/c?d=1: utf8 at 0x7ffe12", "HTTP <n> from <url> utf<n> at <n>"],
    ["C:\\Users\\ann\\x.txt and ../a/b are missing", "<path> and <path> are missing"],
    ["commit deadbeef1 of 2026-11-22T14:00:00.123Z by ann@a.example", "commit <n> of <time> by <email>"],
    ["bad json: 'it is cut o", "bad json: <value>"],
    ["line one\n\tline \u001b[31mtwo", "line one line [<n>mtwo"],
    ["read and/or write input.customer", "read and/or write input.customer"],
    ["the job 0198f0a2-0000-7000-8000-00000000000a broke resize-k3jx", "the job <job> broke <worker>"],
    [
      "Worker resize-k3jx was silent for 10 s and lost the job. This was attempt 2 of 3.",
      "Worker <worker> was silent for <n> s and lost the job."
    ]
  ])("%j has the message %j", (error, message) => {
    expect(of(error).message).toBe(message)
  })

  it("is the same for a last attempt, an only attempt and an attempt whose successor would exceed the time to live", () => {
    const ends = [
      "This was attempt 2 of 3.",
      "This was the only attempt allowed.",
      "This was attempt 1 of 3, and the job's time to live ends before the next may begin."
    ]
    expect(new Set(ends.map((end) => of(`Worker w-1 left. ${end}`).fingerprint)).size).toBe(1)
  })

  it("takes the first frames of the handler's own code from a JavaScript stack", () => {
    const stack = [
      "TypeError: x",
      "    at parse (node:internal/json:1:1)",
      "    at Object.run (/app/node_modules/zod/index.js:9:9)",
      "    at async find (file:///app/users-a1b2c3d4.mjs:12:7)",
      "    at /app/main.ts:3:1",
      "    at new Session (/app/session.ts:1:1)",
      "    at last (/app/last.ts:1:1)"
    ].join("\n")
    const found = of(exception("TypeError", "x", stack))
    expect(found).toMatchObject({
      type: "TypeError",
      frames: ["find (users.mjs)", "<anonymous> (main.ts)", "new Session (session.ts)"]
    })
  })

  it("takes the innermost frames from a Python traceback, which lists them last", () => {
    const traceback = [
      "Traceback (most recent call last):",
      "  File \"/usr/lib/python3.11/runpy.py\", line 1, in run",
      "  File \"/app/main.py\", line 4, in handler",
      "    find(1)",
      "  File \"/app/users.py\", line 9, in find",
      "  File \"/venv/lib/site-packages/orm/query.py\", line 3, in get",
      "KeyError: 'ann'"
    ].join("\n")
    expect(of(exception("<class 'KeyError'>", "'ann'", traceback))).toMatchObject({
      type: "KeyError",
      message: "<value>",
      frames: ["find (users.py)", "handler (main.py)"]
    })
    expect(of(`no user\ntraceback: ${traceback}`)).toMatchObject({
      type: null,
      message: "no user",
      frames: ["find (users.py)", "handler (main.py)"]
    })
  })

  it("reads an exception that is too long to be read in full, and reads all other JSON as text", () => {
    const long = exception("RangeError", `too long: ${"x".repeat(100_000)}`)
    expect(of(long)).toMatchObject({ type: "RangeError" })
    expect(of("{\"code\":7}")).toMatchObject({ type: null, message: "{<value>:<n>}" })
    expect(of("").fingerprint).toMatch(/^[0-9a-f]{16}$/)
  })

  it("property: reads any text, and keeps only bounded parts without control characters", () => {
    fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 3_000 }), fc.boolean(), (text, isException) => {
      const { fingerprint, frames, message, type } = of(isException ? exception(text, text, text) : text)
      expect(fingerprint).toMatch(/^[0-9a-f]{16}$/)
      const all = [message, type ?? "", ...frames]
      for (const one of all) expect(one).not.toMatch(/\p{Cc}/u)
      expect(Math.max(...all.map((one) => one.length))).toBeLessThanOrEqual(500)
    }))
  })

  it("costs no more than linear time for hostile texts", () => {
    const hostile = [
      "'",
      "\"",
      "a-",
      "/",
      "/a",
      "1.",
      "a@",
      "a.",
      "x:",
      "0x",
      "f1",
      " at f (",
      "\\",
      "\\u",
      "{\"error_message\":\"",
      "1-",
      "a+",
      "é"
    ]
    for (const one of hostile) {
      for (
        const wrap of [
          (text: string) => text,
          (text: string) => exception(text, text, text),
          (text: string) => `a\ntraceback: ${text}`
        ]
      ) {
        const time = (size: number) => {
          const error = wrap(one.repeat(size / one.length))
          const start = performance.now()
          of(error)
          return performance.now() - start
        }
        time(10_000)
        // 30 MB: reading more than the first characters, or backtracking over them, would take seconds.
        expect(Math.min(time(30_000_000 / 10), time(30_000_000 / 10)), JSON.stringify(one)).toBeLessThan(100)
      }
    }
  })
})
