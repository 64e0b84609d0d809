/**
 * A cache of recently written or read payloads. It helps because most inputs are claimed, and most outputs are read, right after they are
 * stored. Objects never change, so cached payloads are never stale.
 */

/** Payloads by key. Evicts the least recently used payloads first. */
export interface PayloadCache {
  readonly get: (key: string) => string | undefined
  readonly set: (key: string, text: string) => void
  readonly delete: (key: string) => void
}

/** Payloads longer than this fraction of the capacity are not cached. */
const MAX_FRACTION = 4

/** Creates a cache with this capacity, in characters. */
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
      if (text.length > characters / MAX_FRACTION) return
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
