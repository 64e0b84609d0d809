/**
 * Texts that the reader has named, such as queries and inputs. They are stored in this browser.
 */
import { useId, useState } from "react"

/** A named text. */
export interface SavedText {
  readonly name: string
  readonly text: string
}

/** The maximum number of texts of one kind: more would not fit in one place. */
const MAX_TEXTS = 20

const isSavedText = (value: unknown): value is SavedText =>
  typeof value === "object" && value !== null && typeof Reflect.get(value, "name") === "string" &&
  typeof Reflect.get(value, "text") === "string"

/** The texts in a stored value. Anything else is ignored. */
export const textsOf = (stored: string | null): ReadonlyArray<SavedText> => {
  try {
    const value: unknown = JSON.parse(stored ?? "[]")
    return Array.isArray(value) ? value.filter(isSavedText).slice(0, MAX_TEXTS) : []
  } catch {
    return []
  }
}

/** Adds a text, which replaces a text with the same name. */
export const withText = (texts: ReadonlyArray<SavedText>, text: SavedText): ReadonlyArray<SavedText> =>
  [...texts.filter(({ name }) => name !== text.name), text].slice(-MAX_TEXTS)

const load = (key: string): ReadonlyArray<SavedText> => {
  try {
    return textsOf(window.localStorage.getItem(key))
  } catch {
    return []
  }
}

const store = (key: string, texts: ReadonlyArray<SavedText>) => {
  try {
    window.localStorage.setItem(key, JSON.stringify(texts))
  } catch {
    // A browser without storage, or whose storage is full, keeps the texts until the user leaves the page.
  }
}

/** The saved texts of a kind, such as `view`, and the form that saves the current text. An empty text cannot be saved. */
export const SavedTexts = ({ kind, onOpen, storageKey, text }: {
  readonly kind: string
  /** Where the browser stores them. */
  readonly storageKey: string
  readonly text: string
  readonly onOpen: (text: string) => void
}) => {
  const [texts, setTexts] = useState(() => load(storageKey))
  const [name, setName] = useState<string>()
  const field = useId()
  const set = (changed: ReadonlyArray<SavedText>) => {
    store(storageKey, changed)
    setTexts(changed)
  }
  const current = texts.find((saved) => saved.text === text)
  return (
    <div className="views" role="group" aria-label={`Saved ${kind}s`}>
      {texts.map((saved) => (
        <button
          key={saved.name}
          type="button"
          className="chip"
          aria-pressed={saved === current}
          title={saved.text}
          onClick={() => onOpen(saved.text)}
        >
          {saved.name}
        </button>
      ))}
      {name !== undefined
        ? (
          <form
            className="views"
            onSubmit={(event) => {
              event.preventDefault()
              if (name.trim() !== "") set(withText(texts, { name: name.trim(), text }))
              setName(undefined)
            }}
          >
            <label htmlFor={field}>Name</label>
            <input id={field} value={name} maxLength={40} autoFocus onChange={(event) => setName(event.target.value)} />
            <button type="submit" className="button">Save</button>
          </form>
        )
        : current !== undefined
        ? (
          <button type="button" className="link" onClick={() => set(texts.filter((saved) => saved !== current))}>
            Remove the {kind} {current.name}
          </button>
        )
        : text === ""
        ? null
        : (
          <button type="button" className="link" onClick={() => setName("")}>
            Save as {/^[aeiou]/.test(kind) ? "an" : "a"} {kind}
          </button>
        )}
    </div>
  )
}
