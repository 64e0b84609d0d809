/**
 * OpenAI's published client with a real platform and a real worker: examples/07-openai.
 */
import { join } from "node:path"
import OpenAI, { BadRequestError, NotFoundError } from "openai"
import { describe, expect, it } from "vitest"
import { EXAMPLES, PlatformProcess } from "./PlatformProcess.ts"

describe("an OpenAI client", () => {
  it("calls a generator handler: models, a response, a stream word by word, and errors", async () => {
    await using platform = await PlatformProcess.create(["serve", "--config", join(EXAMPLES, "stint.config.ts")])
    const client = new OpenAI({ baseURL: `${platform.url}/v2/echo/openai/v1`, apiKey: platform.key })

    const { data } = await client.models.list()
    expect(data.map(({ id }) => id)).toEqual(["echo"])

    const messages = [{ role: "user" as const, content: "Hello, Ada and Grace!" }]
    const answer = await client.chat.completions.create({ model: "echo", messages }).withResponse()
    expect(answer.data.choices[0]?.message.content).toBe("Hello, Ada and Grace!")
    expect((await platform.job("echo", answer.request_id ?? "")).status).toBe("COMPLETED")

    const words: Array<string> = []
    let finished: string | null | undefined
    for await (const chunk of await client.chat.completions.create({ model: "echo", messages, stream: true })) {
      const [choice] = chunk.choices
      if (choice?.delta.content !== undefined) words.push(choice.delta.content ?? "")
      finished = choice?.finish_reason
    }
    expect(words).toEqual(["Hello, ", "Ada ", "and ", "Grace!"])
    expect(finished).toBe("stop")

    const refused = client.chat.completions.create({ model: "echo", messages: [] })
    await expect(refused).rejects.toBeInstanceOf(BadRequestError)
    await expect(refused).rejects.toMatchObject({ param: "messages", message: "400 messages must not be empty." })
    await expect(client.files.list()).rejects.toBeInstanceOf(NotFoundError)
  }, 60_000)
})
