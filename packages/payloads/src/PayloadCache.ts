/**
 * The payloads that were written or read last: a job's input is mostly taken, and its output mostly read, right after it was kept. Objects never change,
 * so nothing in here is ever wrong.
 */

/** Texts by key, the least recently used forgotten first. */
export interface PayloadCache {
  readonly get: (key: string) => string | undefined
  readonly set: (key: string, text: string) => void
  readonly delete: (key: string) => void
}

/** A text that would take more than this part of the room is not kept. */
const LARGEST_PART = 4

/** A cache of so many characters. */
export const make = (characters: number): PayloadCache => {
  const texts = new Map<string, string>()
  let held = 0
  const remove = (key: string) => {
    held -= texts.get(key)?.length ?? 0
    texts.delete(key)
  }
  return {
    get: (key) => {
      const text = texts.get(key)
      if (text !== undefined) {
        texts.delete(key)
        texts.set(key, text)
      }
      return text
    },
    set: (key, text) => {
      remove(key)
      if (text.length > characters / LARGEST_PART) return
      texts.set(key, text)
      held += text.length
      for (const oldest of texts.keys()) {
        if (held <= characters) return
        remove(oldest)
      }
    },
    delete: remove
  }
}
