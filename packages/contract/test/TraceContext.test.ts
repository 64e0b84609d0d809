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

describe("a traceparent", () => {
  it("says trace, span and whether the trace is recorded", () => {
    fc.assert(fc.property(hex(32), hex(16), fc.integer({ min: 0, max: 255 }), (trace, span, flags) => {
      const zero = /^0+$/.test(trace) || /^0+$/.test(span)
      expect(parseTraceparent(`00-${trace}-${span}-${flags.toString(16).padStart(2, "0")}`)).toEqual(
        zero ? undefined : { traceId: trace, spanId: span, sampled: flags % 2 === 1 }
      )
    }))
  })

  it("of a later version may have more after its flags", () => {
    expect(parseTraceparent(`01-${TRACE}-${SPAN}-01-what-comes-later`)).toEqual({ traceId: TRACE, spanId: SPAN, sampled: true })
    expect(parseTraceparent(`cc-${TRACE}-${SPAN}-00`)).toEqual({ traceId: TRACE, spanId: SPAN, sampled: false })
  })

  it.each([
    ["empty", ""],
    ["of version 00 with more after its flags", `${traceparent}-more`],
    ["of version ff", `ff-${TRACE}-${SPAN}-01`],
    ["of a later version with more that is no field", `01-${TRACE}-${SPAN}-01more`],
    ["with a trace id of zeros", `00-${"0".repeat(32)}-${SPAN}-01`],
    ["with a span id of zeros", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["in upper case", traceparent.toUpperCase()],
    ["with a short trace id", `00-${TRACE.slice(1)}-${SPAN}-01`],
    ["without flags", `00-${TRACE}-${SPAN}`],
    ["with two values in one header", `${traceparent}, ${traceparent}`],
    ["with a line break", `${traceparent}\n`],
    ["very long", `01-${TRACE}-${SPAN}-01-${"x".repeat(300)}`]
  ])("that is not well-formed is as if it were not there: %s", (_, broken) => {
    expect(parseTraceparent(broken)).toBeUndefined()
    expect(traceContextOf({ traceparent: broken, tracestate: "a=1" })).toBeUndefined()
  })
})

describe("a tracestate", () => {
  it("goes with its traceparent, and with nothing else", () => {
    expect(traceContextOf({ traceparent, tracestate: "a=1,b@c=2" })).toEqual({ traceparent, tracestate: "a=1,b@c=2" })
    expect(traceContextOf({ traceparent })).toEqual({ traceparent })
    expect(traceContextOf({ tracestate: "a=1" })).toBeUndefined()
  })

  it.each([["too long", `a=${"x".repeat(511)}`], ["not printable", "a=\u00e9"], ["no list of keys and values", "a"], [
    "empty",
    ""
  ]])(
    "that is %s is left out",
    (_, tracestate) => {
      expect(traceContextOf({ traceparent, tracestate })).toEqual({ traceparent })
    }
  )
})
