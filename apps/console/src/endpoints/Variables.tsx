/**
 * The form for a list of variables, each with a value or the name of a secret.
 */
import { useId } from "react"
import type { VariableDraft } from "./SettingsDraft.ts"

const Variable = ({ onChange, onRemove, problem, variable }: {
  readonly variable: VariableDraft
  readonly problem: string | undefined
  readonly onChange: (variable: VariableDraft) => void
  readonly onRemove: () => void
}) => {
  const id = useId()
  const { kind, name, value } = variable
  const isSecret = kind === "secret"
  return (
    <li>
      <div className="variable">
        <input
          type="text"
          aria-label="Name of the variable"
          placeholder="NAME"
          value={name}
          autoComplete="off"
          spellCheck={false}
          aria-invalid={problem !== undefined}
          aria-describedby={id}
          onChange={({ target }) => onChange({ ...variable, name: target.value })}
        />
        <select
          aria-label={`Kind of ${name === "" ? "the variable" : name}`}
          value={kind}
          onChange={({ target }) => onChange({ ...variable, kind: target.value === "secret" ? "secret" : "value" })}
        >
          <option value="value">value</option>
          <option value="secret">secret</option>
        </select>
        <textarea
          aria-label={`${isSecret ? "Secret" : "Value"} of ${name === "" ? "the variable" : name}`}
          placeholder={isSecret ? "name of a secret" : ""}
          value={value}
          rows={1}
          spellCheck={false}
          onChange={({ target }) => onChange({ ...variable, value: target.value })}
        />
        <button type="button" className="button" aria-label={`Remove ${name === "" ? "the variable" : name}`} onClick={onRemove}>
          Remove
        </button>
      </div>
      <p id={id} className="invalid">{problem}</p>
    </li>
  )
}

/** The variables, with a button that adds one. */
export const Variables = ({ add, empty, onChange, problems, title, variables }: {
  readonly title: string
  /** What an empty list means. */
  readonly empty: string
  /** The text of the button that adds one. */
  readonly add: string
  readonly variables: ReadonlyArray<VariableDraft>
  /** By the index of the variable. */
  readonly problems: ReadonlyArray<string | undefined>
  readonly onChange: (variables: ReadonlyArray<VariableDraft>) => void
}) => (
  <fieldset>
    <legend>{title}</legend>
    {variables.length === 0 ? <p className="empty">{empty}</p> : (
      <ul className="variables">
        {variables.map((variable, index) => (
          <Variable
            // The position is the identity: a name may be empty, or be there twice, while it is edited.
            key={index}
            variable={variable}
            problem={problems[index]}
            onChange={(changed) => onChange(variables.with(index, changed))}
            onRemove={() => onChange(variables.toSpliced(index, 1))}
          />
        ))}
      </ul>
    )}
    <div className="actions">
      <button
        type="button"
        className="button"
        onClick={() => onChange([...variables, { name: "", kind: "value", value: "" }])}
      >
        {add}
      </button>
    </div>
  </fieldset>
)
