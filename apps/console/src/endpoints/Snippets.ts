/**
 * Programs that call an endpoint, to copy. They name the environment variable with the key, never a key.
 */

/** A single-quoted word of a POSIX shell. */
const shellWord = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** The languages. */
export const LANGUAGES = ["curl", "TypeScript", "Python"] as const

/** One of the languages. */
export type Language = (typeof LANGUAGES)[number]

/** A program that submits a job with this input and prints its output. */
export const submitSnippet = (language: Language, baseUrl: string, endpoint: string, input: string): string => {
  switch (language) {
    case "curl":
      return [
        `curl -s ${baseUrl}/v2/${endpoint}/runsync \\`,
        "  -H \"Authorization: Bearer $STINT_API_KEY\" \\",
        `  -H 'Content-Type: application/json' -d ${shellWord(`{"input":${input}}`)}`
      ].join("\n")
    case "TypeScript":
      return [
        "import { createClient } from \"@stint/client\"",
        "",
        `const client = createClient({ baseUrl: ${JSON.stringify(baseUrl)}, apiKey: process.env.STINT_API_KEY })`,
        `const output = await client.endpoint(${JSON.stringify(endpoint)}).runSync(${input})`,
        "console.log(output)"
      ].join("\n")
    case "Python":
      return [
        "import json, os, urllib.request",
        "",
        "request = urllib.request.Request(",
        `    ${JSON.stringify(`${baseUrl}/v2/${endpoint}/runsync`)},`,
        `    json.dumps({"input": json.loads(${JSON.stringify(input)})}).encode(),`,
        "    {\"Authorization\": \"Bearer \" + os.environ[\"STINT_API_KEY\"], \"Content-Type\": \"application/json\"},",
        ")",
        "print(json.load(urllib.request.urlopen(request))[\"output\"])"
      ].join("\n")
  }
}

/** The curl command that reads a job. */
export const statusSnippet = (baseUrl: string, endpoint: string, id: string): string =>
  `curl -s '${baseUrl}/v2/${endpoint}/status/${id}?explain' -H "Authorization: Bearer $STINT_API_KEY"`
