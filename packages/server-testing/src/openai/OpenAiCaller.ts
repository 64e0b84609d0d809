/**
 * A caller of the OpenAI route, for tests. It returns responses unchanged and can disconnect at any moment.
 */
import { OpenAiError } from "@stint/contract/OpenAiApi"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as ServerTest from "../ServerTest.ts"
import { ADMIN_KEY } from "../ServerTest.ts"
import { type TestEndpoint, until } from "../TestEndpoint.ts"
import { type Answer, type Call, expectJson, NoAnswer, type UnexpectedAnswer } from "../WireClient.ts"

/** A response that is being read. */
export interface Reading {
  readonly status: number
  readonly headers: Headers
  /** The text received so far, as soon as it matches. Fails after ten seconds. */
  readonly until: (wanted: (text: string) => boolean) => Effect.Effect<string, UnexpectedAnswer>
  /** The whole text. */
  readonly whole: Effect.Effect<string, UnexpectedAnswer>
  readonly hangUp: Effect.Effect<void>
}

/** Sends a request and reads the response to its end. */
export const ask = (
  endpoint: Pick<TestEndpoint, "call" | "path">,
  route: string,
  call?: Call
): Effect.Effect<Answer, NoAnswer> => endpoint.call(endpoint.path(`openai/v1/${route}`), call)

/** A chat completion request. */
export const chat = (rest: Readonly<Record<string, unknown>> = {}): { readonly json: unknown } => ({
  json: { model: "echo", messages: [{ role: "user", content: "Hello" }], ...rest }
})

/** Sends a request and starts to read the response; disconnects when the scope closes. */
export const open = Effect.fnUntraced(function*(
  server: ServerTest.ServerTest["Service"],
  endpoint: Pick<TestEndpoint, "path">,
  body: unknown,
  headers: Readonly<Record<string, string>> = {}
): Effect.fn.Return<Reading, NoAnswer, Scope.Scope> {
  const controller = new AbortController()
  yield* Effect.addFinalizer(() => Effect.sync(() => controller.abort()))
  const response = yield* Effect.tryPromise({
    try: () =>
      fetch(`${server.baseUrl}${endpoint.path("openai/v1/chat/completions")}`, {
        method: "POST",
        body: JSON.stringify(body),
        headers: { authorization: `Bearer ${ADMIN_KEY}`, "content-type": "application/json", ...headers },
        signal: controller.signal
      }),
    catch: (cause) => new NoAnswer({ cause })
  })
  let text = ""
  let ended = false
  const read = async () => {
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    let next = await reader?.read()
    while (next?.done === false) {
      text += next.value
      next = await reader?.read()
    }
  }
  // A disconnect also ends the read.
  read().catch(() => {}).finally(() => {
    ended = true
  })
  return {
    status: response.status,
    headers: response.headers,
    until: (wanted) => until(Effect.sync(() => text), wanted),
    whole: Effect.map(until(Effect.sync(() => ended), (over) => over), () => text),
    hangUp: Effect.sync(() => controller.abort())
  }
})

/** The error of a response that must have this status and OpenAI's shape. */
export const expectError = (status: number) => (answer: Answer) =>
  Effect.map(expectJson(status, OpenAiError)(answer), ({ error }) => error)

/** The data of Server-Sent Events in a text, without comments. */
export const dataOf = (text: string): ReadonlyArray<string> =>
  text.split("\n\n").filter((event) => event.startsWith("data: ")).map((event) => event.slice("data: ".length))
