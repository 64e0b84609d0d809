/**
 * Schemas for the Promise side. Loaded when an endpoint that is typed by a handler is first used: with it comes a good part of Effect.
 */
import type { Problem } from "@stint/client/CallError"
import type { PlainHandler } from "@stint/client/HandlerType"
import { fieldIssues } from "@stint/contract/SchemaIssues"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as HandlerCodec from "./HandlerCodec.ts"

/** A value that was written or read; the problems, where its Schema refused it. */
export type CodecResult = { readonly value: unknown } | { readonly problems: ReadonlyArray<Problem> }

/** How an endpoint's values are written and read. */
export interface PromiseCodec {
  readonly input: (input: unknown) => Promise<CodecResult>
  readonly output: (json: unknown) => Promise<CodecResult>
  readonly chunk: (json: unknown) => Promise<CodecResult>
  /** The declared failure in a job's `error`; undefined where it is none. */
  readonly declared: (error: string) => Promise<unknown>
}

const fit = (effect: Effect.Effect<unknown, Schema.SchemaError>): Promise<CodecResult> =>
  Effect.runPromise(Effect.match(effect, {
    onFailure: (error): CodecResult => ({ problems: fieldIssues(error) }),
    onSuccess: (value): CodecResult => ({ value })
  }))

/** How the values of a handler's endpoint are written and read. */
export const make = (handler: PlainHandler): PromiseCodec => {
  const codec = HandlerCodec.ofHandler(handler)
  return {
    input: (input) => fit(codec.input(input)),
    output: (json) => fit(codec.output(json)),
    chunk: (json) => fit(codec.chunk(json)),
    declared: (error) => Effect.runPromise(Effect.map(codec.declared(error), Option.getOrUndefined))
  }
}
