/**
 * One choice of several: as buttons next to each other, or as a drop-down list.
 */
import { type ReactNode, useId } from "react"

/** Buttons, one of which is pressed. */
export const Chips = <A extends string>({ choices, label, onChoose, value }: {
  readonly label: string
  readonly choices: ReadonlyArray<readonly [A, ReactNode]>
  readonly value: A
  readonly onChoose: (value: A) => void
}) => (
  <div className="states" role="group" aria-label={label}>
    {choices.map(([one, name]) => (
      <button
        key={one}
        type="button"
        className="chip"
        aria-pressed={one === value}
        onClick={() => onChoose(one)}
      >
        {name}
      </button>
    ))}
  </div>
)

/** A drop-down list with its label. */
export const Select = <A extends string>({ choices, label, onChoose, value }: {
  readonly label: string
  readonly choices: ReadonlyArray<readonly [A, string]>
  readonly value: A
  readonly onChoose: (value: A) => void
}) => {
  const id = useId()
  return (
    <>
      <label htmlFor={id}>{label}</label>
      <select
        id={id}
        value={value}
        onChange={({ target }) => onChoose(choices.find(([one]) => one === target.value)?.[0] ?? value)}
      >
        {choices.map(([one, name]) => <option key={one} value={one}>{name}</option>)}
      </select>
    </>
  )
}
