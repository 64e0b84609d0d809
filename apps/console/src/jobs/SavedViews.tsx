/**
 * Queries that the reader has named. They are stored in this browser.
 */
import { useId, useState } from "react"

/** A named query. */
export interface View {
  readonly name: string
  readonly query: string
}

const KEY = "stint.views"

/** The maximum number of views: more would not fit above the list. */
const MAX_VIEWS = 20

const isView = (value: unknown): value is View =>
  typeof value === "object" && value !== null && typeof Reflect.get(value, "name") === "string" &&
  typeof Reflect.get(value, "query") === "string"

/** The views in a stored text. Anything but views is ignored. */
export const viewsOf = (text: string | null): ReadonlyArray<View> => {
  try {
    const value: unknown = JSON.parse(text ?? "[]")
    return Array.isArray(value) ? value.filter(isView).slice(0, MAX_VIEWS) : []
  } catch {
    return []
  }
}

/** Adds a view, which replaces a view with the same name. */
export const withView = (views: ReadonlyArray<View>, view: View): ReadonlyArray<View> =>
  [...views.filter(({ name }) => name !== view.name), view].slice(-MAX_VIEWS)

const load = (): ReadonlyArray<View> => {
  try {
    return viewsOf(window.localStorage.getItem(KEY))
  } catch {
    return []
  }
}

const store = (views: ReadonlyArray<View>) => {
  try {
    window.localStorage.setItem(KEY, JSON.stringify(views))
  } catch {
    // A browser without storage keeps the views until the user leaves the page.
  }
}

/** The views, and the form that saves the current query as a view. */
export const SavedViews = ({ onOpen, query }: { readonly query: string; readonly onOpen: (query: string) => void }) => {
  const [views, setViews] = useState(load)
  const [name, setName] = useState<string>()
  const field = useId()
  const set = (changed: ReadonlyArray<View>) => {
    store(changed)
    setViews(changed)
  }
  const current = views.find((view) => view.query === query)
  return (
    <div className="views" role="group" aria-label="Saved views">
      {views.map((view) => (
        <button
          key={view.name}
          type="button"
          className="chip"
          aria-pressed={view === current}
          title={view.query}
          onClick={() => onOpen(view.query)}
        >
          {view.name}
        </button>
      ))}
      {name !== undefined
        ? (
          <form
            className="views"
            onSubmit={(event) => {
              event.preventDefault()
              if (name.trim() !== "") set(withView(views, { name: name.trim(), query }))
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
          <button type="button" className="link" onClick={() => set(views.filter((view) => view !== current))}>
            Remove the view {current.name}
          </button>
        )
        : query === ""
        ? null
        : <button type="button" className="link" onClick={() => setName("")}>Save as a view</button>}
    </div>
  )
}
