/**
 * A model for OpenAI clients. It repeats the last message; everything else works as with a real model.
 *
 *   baseURL http://127.0.0.1:4600/v2/echo/openai/v1, apiKey from the output of `pnpm start`, model "echo"
 */
import * as sdk from "@stint/sdk"

interface Message {
  readonly role: string
  readonly content: string
}

interface Input {
  readonly openai_route: string
  readonly openai_input?: { readonly model?: string; readonly messages?: ReadonlyArray<Message>; readonly stream?: boolean }
}

const MODEL = { id: "echo", object: "model", created: 1_790_000_000, owned_by: "stint" }

/** An error in OpenAI's format. The client throws the exception that matches its `code`. */
const openAiError = (message: string, code: number, param: string | null = null) => ({
  error: { message, type: "invalid_request_error", param, code }
})

/** The words of the model's response. */
const words = (messages: ReadonlyArray<Message>): ReadonlyArray<string> => messages.at(-1)?.content.match(/\S+\s*/g) ?? []

sdk.serverless.start({
  handler: async function*({ id, input }: { id: string; input: Input }): AsyncGenerator<object, void, void> {
    const { openai_input: request = {}, openai_route: route } = input
    if (route === "/v1/models") return yield { object: "list", data: [MODEL] }
    if (route !== "/v1/chat/completions") return yield openAiError(`The route ${route} does not exist.`, 404)
    const { messages = [], model = MODEL.id, stream = false } = request
    if (messages.length === 0) return yield openAiError("messages must not be empty.", 400, "messages")

    const head = { id: `chatcmpl-${id}`, created: Math.floor(Date.now() / 1000), model }
    if (!stream) {
      const message = { role: "assistant", content: words(messages).join(""), refusal: null }
      return yield { ...head, object: "chat.completion", choices: [{ index: 0, message, finish_reason: "stop", logprobs: null }] }
    }
    // The server sends each object as a `data:` line, and `[DONE]` after the last one.
    const chunk = (delta: object, finish_reason: string | null) => ({
      ...head,
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta, finish_reason, logprobs: null }]
    })
    for (const word of words(messages)) yield chunk({ role: "assistant", content: word }, null)
    yield chunk({}, "stop")
  }
})
