/**
 * Finds secrets in what a platform wrote: as they are, and in the encodings that programs use for text.
 */
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"

/** The forms of a text: as it is, in JSON, in a URL, and in base64 at any offset. */
export const formsOf = (text: string): ReadonlyArray<string> => {
  const base64 = [0, 1, 2].map((offset) => Buffer.from(" ".repeat(offset) + text).toString("base64").slice(4, -4))
  const forms = [text, JSON.stringify(text).slice(1, -1), encodeURIComponent(text), ...base64]
  return [...new Set([...forms, ...base64.map((form) => form.replaceAll("+", "-").replaceAll("/", "_"))])]
}

/** All files in a folder. */
const filesIn = async (folder: string): Promise<ReadonlyArray<string>> => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}

/** The files in a folder that contain a text in any form. */
export const holdersOf = async (folder: string, text: string): Promise<ReadonlyArray<string>> => {
  const forms = formsOf(text)
  const found = await Promise.all(
    (await filesIn(folder)).map(async (file) => {
      // Workers may replace a file in the compile cache during the search.
      const content = await readFile(file).catch(() => Buffer.alloc(0))
      return forms.some((form) => content.includes(form)) ? [file] : []
    })
  )
  return found.flat()
}
