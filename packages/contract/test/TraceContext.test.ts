import * as fc from "fast-check"
import { describe, expect, it } from "vitest"
import { parseTraceparent, traceContextOf } from "../src/TraceContext.ts"

const TRACE = "0af7651916cd43dd8448eb211c80319c"
const SPAN = "b7ad6b7169203331"
const traceparent = `00-${TRACE}-${SPAN}-01`

const hex = (length: number) =>
  fc.array(fc.integer({ min: 0, max: 15 }), { minLength: length, maxLength: length }).map((digits) =>
    digits.map((digit) => digit.toString(16)).join("")
  )

describe("parseTraceparent", () => {
  it("reads the trace id, the span id and the sampled flag", () => {
    fc.assert(fc.property(hex(32), hex(16), fc.integer({ min: 0, max: 255 }), (trace, span, flags) => {
      const zero = /^0+$/.test(trace) || /^0+$/.test(span)
      expect(parseTraceparent(`00-${trace}-${span}-${flags.toString(16).padStart(2, "0")}`)).toEqual(
        zero ? undefined : { traceId: trace, spanId: span, sampled: flags % 2 === 1 }
      )
    }))
  })

  it("accepts further fields after the flags of later versions", () => {
    expect(parseTraceparent(`01-${TRACE}-${SPAN}-01-what-comes-later`)).toEqual({ traceId: TRACE, spanId: SPAN, sampled: true })
    expect(parseTraceparent(`cc-${TRACE}-${SPAN}-00`)).toEqual({ traceId: TRACE, spanId: SPAN, sampled: false })
  })

  it.each([
    ["empty", ""],
    ["of version 00 with more after its flags", `${traceparent}-more`],
    ["of version ff", `ff-${TRACE}-${SPAN}-01`],
    ["of a later version with trailing text that is not a field", `01-${TRACE}-${SPAN}-01more`],
    ["with a trace id of zeros", `00-${"0".repeat(32)}-${SPAN}-01`],
    ["with a span id of zeros", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["in upper case", traceparent.toUpperCase()],
    ["with a short trace id", `00-${TRACE.slice(1)}-${SPAN}-01`],
    ["without flags", `00-${TRACE}-${SPAN}`],
    ["with two values in one header", `${traceparent}, ${traceparent}`],
    ["with a line break", `${traceparent}\n`],
    ["very long", `01-${TRACE}-${SPAN}-01-${"x".repeat(300)}`]
  ])("rejects an invalid traceparent: %s", (_, broken) => {
    expect(parseTraceparent(broken)).toBeUndefined()
    expect(traceContextOf({ traceparent: broken, tracestate: "a=1" })).toBeUndefined()
  })
})

describe("traceContextOf", () => {
  it("returns a tracestate only with a valid traceparent", () => {
    expect(traceContextOf({ traceparent, tracestate: "a=1,b@c=2" })).toEqual({ traceparent, tracestate: "a=1,b@c=2" })
    expect(traceContextOf({ traceparent })).toEqual({ traceparent })
    expect(traceContextOf({ tracestate: "a=1" })).toBeUndefined()
  })

  it.each([["too long", `a=${"x".repeat(511)}`], ["not printable", "a=\u00e9"], ["not a list of key-value pairs", "a"], [
    "empty",
    ""
  ]])(
    "drops a tracestate that is %s",
    (_, tracestate) => {
      expect(traceContextOf({ traceparent, tracestate })).toEqual({ traceparent })
    }
  )
})
