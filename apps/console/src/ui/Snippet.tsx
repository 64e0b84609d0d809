/**
 * A program that calls an endpoint, in the reader's language.
 */
import { LANGUAGES, submitSnippet } from "../endpoints/Snippets.ts"
import { Tabs } from "./Tabs.tsx"
import { Code } from "./Text.tsx"

/** The program in each language. */
export const Snippet = ({ endpoint, input }: { readonly endpoint: string; readonly input: string }) => (
  <Tabs
    label="Language"
    tabs={LANGUAGES.map((language) => ({
      name: language,
      content: <Code label={`the ${language} program`}>{submitSnippet(language, window.location.origin, endpoint, input)}</Code>
    }))}
  />
)
