/**
 * The filter by endpoint.
 */
import { Select } from "../ui/Choices.tsx"

/** An endpoint, or all of them: an empty text. `names`: the endpoints that exist. The chosen one is offered even if it does not exist. */
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
