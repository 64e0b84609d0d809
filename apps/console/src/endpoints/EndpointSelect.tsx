/**
 * The filter by endpoint.
 */
import { Select } from "../ui/Choices.tsx"

/**
 * Chooses an endpoint, or all endpoints as an empty text. `names`: the existing endpoints. The chosen endpoint is offered even if it does not
 * exist.
 */
export const EndpointSelect = ({ all = "All endpoints", names, onChoose, value }: {
  readonly names: ReadonlyArray<string>
  readonly value: string
  readonly onChoose: (endpoint: string) => void
  /** The name of the first choice. */
  readonly all?: string
}) => (
  <Select
    label="Endpoint"
    choices={[
      ["", all],
      ...[...(value === "" || names.includes(value) ? [] : [value]), ...names].map((name) => [name, name] as const)
    ]}
    value={value}
    onChoose={onChoose}
  />
)
