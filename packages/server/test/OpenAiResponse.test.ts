/**
 * Tests the pure parts of the OpenAI route: Python reprs parse to the original value, a stream does not depend on where chunks are split,
 * and no handler output can break a stream.
 */
import { describe, expect, it } from "@effect/vitest"
import { EndpointId, JobId } from "@stint/contract/Ids"
import { JsonText, toJsonText } from "@stint/contract/Json"
import { type JobEvent, START_CURSOR } from "@stint/queue/JobEventCursor"
import { submitted } from "@stint/store/JobMachine"
import type { JobReport } from "@stint/store/JobRecord"
import * as fc from "fast-check"
import * as OpenAiErrorResponse from "../src/openai/OpenAiErrorResponse.ts"
import * as OpenAiResponse from "../src/openai/OpenAiResponse.ts"
import * as PythonRepr from "../src/openai/PythonRepr.ts"

const job: JobReport = {
  ...submitted({
    id: JobId.make("job-1"),
    endpoint: EndpointId.make("chat"),
    input: JsonText.make("{}"),
    s3Config: null,
    traceparent: null,
    tracestate: null,
    lowPriority: false,
    priority: 0,
    createdAt: 0,
    ttlMs: 60_000,
    executionTimeoutMs: 60_000,
    leaseMs: 30_000,
    maxAttempts: 3,
    retry: null,
    retentionMs: 60_000,
    webhook: null,
    tags: []
  }),
  attempt: 1
}

const chunk = (output: JsonText, index: number): JobEvent => ({
  _tag: "Chunk",
  cursor: START_CURSOR,
  attempt: 1,
  number: index + 1,
  output
})

const end = (rest: Partial<JobReport>): JobEvent => ({
  _tag: "End",
  cursor: START_CURSOR,
  attempt: 1,
  job: { ...job, status: "COMPLETED", finishedAt: 1, ...rest }
})

/** The text of the whole stream for these events. */
const sayAll = (events: ReadonlyArray<JobEvent>): string => {
  let state = OpenAiResponse.EMPTY_STREAM
  let text = ""
  for (const event of events) {
    const next = OpenAiResponse.nextStep(state, event)
    state = next.state
    text += next.text
    if (next.ended) break
  }
  return text
}

/** The Python repr of a value. Supports only numbers that JSON and Python write in the same way. */
const repr = (value: unknown): string => {
  if (value === null) return "None"
  if (value === true) return "True"
  if (value === false) return "False"
  if (typeof value === "number") return String(value)
  if (typeof value === "string") {
    const quote = value.includes("'") && !value.includes("\"") ? "\"" : "'"
    const inner = Array.from(value, (character) => {
      const code = character.codePointAt(0) ?? 0
      if (character === "\\" || character === quote) return `\\${character}`
      if (character === "\n") return "\\n"
      if (character === "\r") return "\\r"
      if (character === "\t") return "\\t"
      if (code < 0x20 || (code >= 0x7f && code < 0xa1)) return `\\x${code.toString(16).padStart(2, "0")}`
      if (code === 0x2028) return "\\u2028"
      return code === 0xe0001 ? "\\U000e0001" : character
    })
    return quote + inner.join("") + quote
  }
  if (Array.isArray(value)) return `[${value.map(repr).join(", ")}]`
  return `{${Object.entries(value as object).map(([key, one]) => `${repr(key)}: ${repr(one)}`).join(", ")}}`
}

const data = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(null, true, false, "\u2028", "\u{E0001}", "it's \"so\"", "\\'"),
    fc.integer(),
    fc.string({ unit: "binary" }),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(fc.string(), tie("value"), { maxKeys: 4, noNullPrototype: true })
  )
})).value

describe("Python's repr", () => {
  it("parses to the value that it represents", () => {
    fc.assert(fc.property(data, (value) => {
      expect(PythonRepr.parse(repr(value))).toEqual(value)
    }))
  })

  it("parses tuples, floats and one-element tuples, and rejects anything but plain data", () => {
    expect(PythonRepr.parse("{'a': (1, 2.5, -3e-05), 'b': ('x',), 1: None, 'c': {}, 'd': []}")).toEqual({
      a: [1, 2.5, -3e-05],
      b: ["x"],
      1: null,
      c: {},
      d: []
    })
    for (
      const text of ["", "{", "{'a'}", "{'a': }", "{'a': 1", "<object>", "nan", "{'a': Decimal('1')}", "'open", "'\\q'", "1 2"]
    ) {
      expect(PythonRepr.parse(text), text).toBeUndefined()
    }
    expect(PythonRepr.parse("[".repeat(100_000))).toBeUndefined()
  })

  it("never throws, for any text", () => {
    fc.assert(fc.property(fc.string({ unit: fc.constantFrom(..."{}[]()'\":,\\x0aNoneTrue1.-e ".split("")) }), (text) => {
      PythonRepr.parse(text)
      expect(OpenAiErrorResponse.ofError(text).status).toBeGreaterThanOrEqual(400)
    }))
  })
})

describe("a stream", () => {
  it("of text is the same however it is cut into chunks", () => {
    const events = fc.array(fc.record({ data: fc.json({ maxDepth: 2 }), line: fc.constantFrom("\n", "\r\n") }), {
      minLength: 1,
      maxLength: 5
    })
    fc.assert(fc.property(events, fc.array(fc.nat(400)), (events, cuts) => {
      const text = events.map(({ data, line }) => `data: ${data}${line}${line}`).join("")
      const places = [0, ...cuts.filter((cut) => cut < text.length).toSorted((a, b) => a - b), text.length]
      const parts = places.slice(1).map((place, index) => text.slice(places[index], place))
      // A part that is valid JSON on its own occurs only at the start of an event, and no split inside an event creates such a part.
      expect(sayAll([...parts.map((part, index) => chunk(toJsonText(part), index)), end({ output: JsonText.make("[]") })])).toBe(
        text
      )
    }))
  })

  it("of any chunks consists of complete events and ends with [DONE]", () => {
    const object = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }))
    fc.assert(fc.property(fc.array(object, { minLength: 1, maxLength: 5 }), fc.integer({ min: 0, max: 3 }), (objects, spaces) => {
      const text = sayAll([
        ...objects.map((one, index) => chunk(JsonText.make(JSON.stringify(one, null, spaces)), index)),
        end({})
      ])
      const lines = text.split("\n\n")
      expect(lines.at(-1)).toBe("")
      expect(lines.at(-2)).toBe("data: [DONE]")
      expect(lines.slice(0, -2).map((event) => JSON.parse(event.replaceAll(/^data: /gm, "")))).toEqual(
        JSON.parse(JSON.stringify(objects))
      )
    }))
  })

  it("of a list that a handler returned sends each of its elements", () => {
    expect(sayAll([end({ output: JsonText.make("[{\"n\":1},\"data: 2\\n\\n\"]") })])).toBe(
      "data: {\"n\":1}\n\ndata: 2\n\ndata: [DONE]\n\n"
    )
  })

  it("states why the previous attempt was lost, without the traceback", () => {
    const lost = (lastError: string | null) =>
      sayAll([chunk(JsonText.make("{}"), 0), {
        _tag: "Status",
        cursor: START_CURSOR,
        attempt: 1,
        status: "IN_QUEUE",
        job: { ...job, lastError }
      }])
    expect(lost("Worker w was silent.")).toContain("was sent: Worker w was silent. Send the request again")
    expect(lost(null)).toContain("was sent. Send the request again")
    const status = { _tag: "Status", attempt: 2, status: "IN_PROGRESS", job } as const
    const run = [
      chunk(JsonText.make("1"), 0),
      { ...status, cursor: { ...START_CURSOR, chunk: 1 } },
      chunk(JsonText.make("2"), 1),
      end({})
    ]
    expect(sayAll(run)).toBe("data: 1\n\ndata: 2\n\ndata: [DONE]\n\n")
    expect(lost("{\"error_message\":\"x\",\"error_traceback\":\"sec")).toContain("was sent. Send the request again")
  })
})

describe("a job that did not complete", () => {
  it("is 504 after a timeout and 499 after a cancel", () => {
    expect(OpenAiErrorResponse.ofJob({ ...job, status: "TIMED_OUT", error: "It ran for more than 5 s." })).toMatchObject({
      status: 504,
      error: { type: "timeout_error", code: "timed_out", message: "It ran for more than 5 s." },
      final: true
    })
    expect(OpenAiErrorResponse.ofJob({ ...job, status: "CANCELLED" })).toMatchObject({
      status: 499,
      error: { code: "cancelled" }
    })
    expect(OpenAiErrorResponse.ofJob({ ...job, status: "COMPLETED" })).toBeUndefined()
  })

  it("has the status that matches its error's type when it has no status of its own", () => {
    const statusOf = (type: string) => OpenAiErrorResponse.ofError(JSON.stringify({ message: "m", type })).status
    expect(Object.fromEntries(
      [
        "invalid_request_error",
        "BadRequestError",
        "authentication_error",
        "PermissionDeniedError",
        "not_found_error",
        "ConflictError",
        "UnprocessableEntityError",
        "rate_limit_error",
        "overloaded_error",
        "TimeoutError",
        "server_error"
      ].map((type) => [type, statusOf(type)])
    )).toEqual({
      invalid_request_error: 400,
      BadRequestError: 400,
      authentication_error: 401,
      PermissionDeniedError: 403,
      not_found_error: 404,
      ConflictError: 409,
      UnprocessableEntityError: 422,
      rate_limit_error: 429,
      overloaded_error: 503,
      TimeoutError: 504,
      server_error: 500
    })
  })
})
