/**
 * The types of wrong connections. A step that does not fit gets one of them as an extra requirement that no value meets. The compiler therefore
 * reports the step's own line and prints the type, which names the step, what it receives and what it takes.
 *
 * ```
 *   Argument of type '(photos: number) => string' is not assignable to parameter of type '... & DoesNotFit<"page", {
 *     receives: string; takes: number }>'
 * ```
 */
import type { Json } from "@stint/contract/Json"

/** The step `Step` does not accept the type that it receives. */
export interface DoesNotFit<Step extends string, Wrong extends { readonly receives: unknown; readonly takes: unknown }> {
  readonly "~does not fit": readonly [Step, Wrong]
}

/**
 * The output of the step `Step` cannot be recorded, because the value at this place is not JSON. Return JSON, or give the step an `output`
 * Schema, which encodes the value.
 */
export interface NotJson<Step extends string, Found extends { readonly at: string; readonly is: unknown }> {
  readonly "~not json": readonly [Step, Found]
}

/** Another step has this name, or it is `input`. Names identify what has been recorded, so each is used once. */
export interface NameTaken<Name extends string> {
  readonly "~name taken": Name
}

/** `unknown` when the name is free. */
export type FreeName<Name extends string, Names> = Name extends keyof Names ? NameTaken<Name> : unknown

/** `unknown` when a step that takes `Takes` can receive `Receives`. */
export type Fits<Name extends string, Receives, Takes> = [Receives] extends [Takes] ? unknown
  : DoesNotFit<Name, { receives: Receives; takes: Takes }>

/** The deepest level that {@link NotJsonAt} inspects, so that the inspection of a recursive type ends. */
type Deeper<Depth extends ReadonlyArray<unknown>> = readonly [...Depth, unknown]

/** The first paths in a type whose values JSON cannot represent; `never` if there are none. `undefined` counts as absent. */
export type NotJsonAt<T, At extends string = "output", Depth extends ReadonlyArray<unknown> = readonly []> = 0 extends (1 & T) ?
  never
  : [T] extends [Json | undefined | void] ? never
  : unknown extends T ? { readonly at: At; readonly is: T }
  : Depth["length"] extends 8 ? never
  : T extends Json | undefined | void ? never
  : T extends bigint | symbol | ((...args: never) => unknown) ? { readonly at: At; readonly is: T }
  : T extends
    | { readonly toJSON: unknown }
    | ReadonlyMap<unknown, unknown>
    | ReadonlySet<unknown>
    | ArrayBufferView
    | ArrayBuffer ? { readonly at: At; readonly is: T }
  : T extends ReadonlyArray<infer Element> ? NotJsonAt<Element, `${At}[]`, Deeper<Depth>>
  : { [K in keyof T]-?: NotJsonAt<T[K], `${At}.${K & string}`, Deeper<Depth>> }[keyof T]

/** `unknown` when the output of a step can be recorded. */
export type Recordable<Name extends string, Output> = [NotJsonAt<Output>] extends [never] ? unknown
  : NotJson<Name, NotJsonAt<Output>>
