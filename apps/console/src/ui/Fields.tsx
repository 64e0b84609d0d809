/**
 * The fields of forms. What is wrong with a field is shown below it while the user types.
 */
import { type ReactNode, useEffect, useId, useState } from "react"

/** A field with its label, what it is for, and what is wrong with it. */
export const Field = ({ children, hint, label, problem }: {
  readonly label: string
  readonly hint?: string | undefined
  readonly problem?: string | undefined
  /** Receives the id of the field, and those of its hint and its problem. */
  readonly children: (id: string, describedBy: string) => ReactNode
}) => {
  const id = useId()
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(id, hint === undefined ? `${id}-problem` : `${id}-hint ${id}-problem`)}
      {hint === undefined ? null : <p id={`${id}-hint`} className="muted">{hint}</p>}
      <p id={`${id}-problem`} className="invalid">{problem}</p>
    </div>
  )
}

/** A field for one line of text. */
export const Text = ({ label, list, onChange, placeholder, problem, type = "text", value }: {
  readonly label: string
  readonly value: string
  readonly problem: string | undefined
  readonly onChange: (value: string) => void
  readonly placeholder?: string
  readonly type?: "text" | "datetime-local" | "number"
  readonly list?: string
}) => (
  <Field label={label} problem={problem}>
    {(id, describedBy) => (
      <input
        id={id}
        type={type}
        value={value}
        placeholder={placeholder}
        list={list}
        autoComplete="off"
        spellCheck={false}
        step={type === "datetime-local" ? 1 : "any"}
        aria-invalid={problem !== undefined}
        aria-describedby={describedBy}
        onChange={(event) => onChange(event.target.value)}
      />
    )}
  </Field>
)

/** A field with a drop-down list. */
export function Choice<A extends string>({ label, onChange, options, value }: {
  readonly label: string
  readonly value: A
  readonly options: Readonly<Record<A, string>>
  readonly onChange: (value: A) => void
}) {
  const keys: ReadonlyArray<string> = Object.keys(options)
  const isOption = (key: string): key is A => keys.includes(key)
  return (
    <Field label={label}>
      {(id) => (
        <select
          id={id}
          value={value}
          onChange={({ target }) => isOption(target.value) ? onChange(target.value) : undefined}
        >
          {keys.filter(isOption).map((key) => <option key={key} value={key}>{options[key]}</option>)}
        </select>
      )}
    </Field>
  )
}

/** The text of a filter. It changes when the user presses Enter or leaves the field, because each change is a request. */
export const FilterText = ({ label, maxLength = 200, onChange, placeholder, value }: {
  readonly label: string
  readonly value: string
  readonly placeholder: string
  readonly maxLength?: number
  readonly onChange: (value: string) => void
}) => {
  const id = useId()
  const [typed, setTyped] = useState(value)
  useEffect(() => setTyped(value), [value])
  return (
    <>
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        value={typed}
        maxLength={maxLength}
        placeholder={placeholder}
        onChange={(event) => setTyped(event.target.value)}
        onBlur={() => onChange(typed.trim())}
        onKeyDown={(event) => {
          if (event.key === "Enter") onChange(typed.trim())
        }}
      />
    </>
  )
}
