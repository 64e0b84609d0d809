/**
 * Compares the plain types from `@stint/client` with the contract's Schemas. The compiler checks this file; nothing happens at run time.
 */
import type { HandlerLike } from "@stint/client"
import type * as ApiTypes from "@stint/client/ApiTypes"
import type { Health } from "@stint/contract/Health"
import type { Job, JobReceipt, JobStatus, Purged, RunRequest, StreamPage } from "@stint/contract/Job"
import type { JobChunkEvent, JobProgressEvent, JobStatusEvent } from "@stint/contract/JobEvents"
import type { JobLogLine } from "@stint/contract/JobLogLine"
import type { Json } from "@stint/contract/Json"
import type { EventReceipt, SendEvent } from "@stint/contract/RunSteps"
import { describe, expectTypeOf, it } from "vitest"
import type { SchemaHandler } from "../src/SchemaHandler.ts"

/** Whether two types accept the same values: each is assignable to the other, at every depth, including optional keys. */
type Same<A, B> = [A] extends [B] ? [B] extends [A] ? [Exact<A>] extends [Exact<B>] ? true : false : false : false

/** Makes assignability detect optional keys and keys that only one of the types has. Stops at JSON, which is recursive. */
type Exact<A> = unknown extends A ? A
  : [Json] extends [A] ? "Json"
  : A extends ReadonlyArray<infer Element> ? ReadonlyArray<Exact<Element>>
  : A extends object ?
    { readonly [K in keyof A]-?: [Exact<Exclude<A[K], undefined>>, {} extends Pick<A, K> ? "optional" : "required"] }
  : A

const same = <A, B>() => expectTypeOf<Same<A, B>>()

describe("the plain types of the client", () => {
  it("equal the types of the contract's Schemas", () => {
    same<ApiTypes.Json, Json>().toEqualTypeOf<true>()
    same<ApiTypes.JobStatus, JobStatus>().toEqualTypeOf<true>()
    same<ApiTypes.Job, Job>().toEqualTypeOf<true>()
    same<ApiTypes.JobReceipt, JobReceipt>().toEqualTypeOf<true>()
    same<ApiTypes.StreamPage, StreamPage>().toEqualTypeOf<true>()
    same<ApiTypes.Purged, Purged>().toEqualTypeOf<true>()
    same<ApiTypes.RunEvent, SendEvent>().toEqualTypeOf<true>()
    same<ApiTypes.RunEventReceipt, EventReceipt>().toEqualTypeOf<true>()
    same<ApiTypes.Health, Health>().toEqualTypeOf<true>()
    same<ApiTypes.JobStatusEvent, JobStatusEvent>().toEqualTypeOf<true>()
    same<ApiTypes.JobProgressEvent, JobProgressEvent>().toEqualTypeOf<true>()
    same<ApiTypes.JobChunkEvent, JobChunkEvent>().toEqualTypeOf<true>()
    same<ApiTypes.JobLogLine, JobLogLine>().toEqualTypeOf<true>()
  })

  it("equal the encoded options for a submission, because the client sends them", () => {
    same<ApiTypes.JobOptions, Omit<typeof RunRequest.Encoded, "input" | "idempotencyKey">>().toEqualTypeOf<true>()
  })

  it("accept a handler with Effect Schemas", () => {
    expectTypeOf<SchemaHandler>().toExtend<HandlerLike>()
  })

  it("differ when a key is missing, optional or of another type", () => {
    same<{ readonly a: number }, { readonly a: number; readonly b?: string }>().toEqualTypeOf<false>()
    same<{ readonly a: number }, { readonly a?: number }>().toEqualTypeOf<false>()
    same<{ readonly a: { readonly b: "x" } }, { readonly a: { readonly b: "x" | "y" } }>().toEqualTypeOf<false>()
  })
})
