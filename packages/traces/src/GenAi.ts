/**
 * OpenTelemetry's attributes for generative AI, for jobs from the OpenAI route.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/** How the OpenAI route begins a job's input (docs/spec/openai-route.md). */
const PREFIX = "{\"openai_route\":"

/** The maximum length of an input that is read, in characters. Reading a longer one would take longer than the rest of the span. */
const MAX_LENGTH = 64 * 1024

const decodeInput = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({
  openai_route: Schema.String,
  openai_input: Schema.optionalKey(Schema.Struct({ model: Schema.optionalKey(Schema.String) }))
})))

const OPERATIONS: Readonly<Record<string, string>> = {
  "/v1/chat/completions": "chat",
  "/v1/responses": "chat",
  "/v1/completions": "text_completion",
  "/v1/embeddings": "embeddings"
}

/** The attributes of a job's input; none when the job did not come from the OpenAI route. */
export const genAiAttributes = (input: string): Readonly<Record<string, string | undefined>> => {
  if (!input.startsWith(PREFIX) || input.length > MAX_LENGTH) return {}
  return Option.match(decodeInput(input), {
    onNone: () => ({}),
    onSome: ({ openai_input, openai_route }): Readonly<Record<string, string | undefined>> => {
      const operation = OPERATIONS[openai_route]
      return operation === undefined
        ? {}
        : { "gen_ai.operation.name": operation, "gen_ai.provider.name": "openai", "gen_ai.request.model": openai_input?.model }
    }
  })
}
