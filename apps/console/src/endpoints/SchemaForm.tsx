/**
 * The form for a handler's input. It edits the JSON text of the input, and shows what is wrong with each value while the user types.
 */
import { Field } from "../ui/Fields.tsx"
import { fieldProblem, fieldText, fieldValue, type FormField, valueAt, withValue } from "./InputSchema.ts"

interface FieldProps {
  readonly field: FormField
  readonly value: unknown
  readonly onChange: (value: unknown) => void
}

const BOOLEANS: ReadonlyArray<string> = ["true", "false"]

/** A field that is not a group. */
const Single = ({ field, onChange, value }: FieldProps) => {
  const { description, isRequired, kind, label } = field
  const problem = fieldProblem(field, value)
  const text = fieldText(field, value)
  const change = (entered: string) => onChange(fieldValue(field, entered))
  const hint = kind._tag === "Json" ? [description, "Edit it in the JSON below."].filter(Boolean).join(" ") : description
  return (
    <Field label={isRequired ? label : `${label} (optional)`} problem={problem} hint={hint}>
      {(id, describedBy) => {
        const common = { id, "aria-invalid": problem !== undefined, "aria-describedby": describedBy }
        switch (kind._tag) {
          case "Boolean":
          case "Choice":
            return (
              <select {...common} value={text} onChange={({ target }) => change(target.value)}>
                <option value="">not set</option>
                {(kind._tag === "Boolean" ? BOOLEANS : kind.options).map((option) => (
                  <option key={option} value={option}>{option.replace(/^"(.*)"$/, "$1")}</option>
                ))}
              </select>
            )
          case "Lines":
            return (
              <textarea
                {...common}
                value={text}
                rows={3}
                spellCheck={false}
                placeholder="one per line"
                onChange={({ target }) => change(target.value)}
              />
            )
          case "Number":
            return (
              <input
                {...common}
                type="number"
                step={kind.isWhole ? 1 : "any"}
                value={text}
                autoComplete="off"
                onChange={({ target }) => change(target.value)}
              />
            )
          case "Text":
            return (
              <input
                {...common}
                type="text"
                value={text}
                autoComplete="off"
                spellCheck={false}
                onChange={({ target }) => change(target.value)}
              />
            )
          default:
            return <input {...common} type="text" value={text} readOnly />
        }
      }}
    </Field>
  )
}

/** The fields of an input, and the change of one as a new input. */
export const SchemaForm = ({ fields, input, onChange }: {
  readonly fields: ReadonlyArray<FormField>
  readonly input: unknown
  readonly onChange: (input: unknown) => void
}) => (
  <>
    {fields.map((field) => {
      const { kind, label, path } = field
      return kind._tag === "Group"
        ? (
          <fieldset key={path.join("/")}>
            <legend>{label}</legend>
            <SchemaForm fields={kind.fields} input={input} onChange={onChange} />
          </fieldset>
        )
        : (
          <Single
            key={path.join("/")}
            field={field}
            value={valueAt(input, path)}
            onChange={(value) => onChange(withValue(input, path, value))}
          />
        )
    })}
  </>
)
