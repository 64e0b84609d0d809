/**
 * Budgets: how much is used, and when they renew.
 */
import type { BudgetStatus } from "@stint/contract/UsageApi"
import { costText } from "@stint/contract/UsageText"
import { Link } from "@tanstack/react-router"
import { percent } from "../format/Format.ts"
import { Badge } from "../ui/Status.tsx"
import { Id, Time } from "../ui/Text.tsx"
import { type KeyNames, ownerName } from "./OwnerNames.ts"

/** From this share on, a budget is shown as nearly used up. */
const NEARLY = 0.8

const State = ({ budget: { limit, reached, spent } }: { readonly budget: BudgetStatus }) =>
  reached
    ? <Badge tone="failed">New jobs are refused</Badge>
    : spent >= limit * NEARLY
    ? <Badge tone="waiting">Nearly used up</Badge>
    : <Badge tone="done">Open</Badge>

const Name = ({ id, keys, known, scope }: {
  readonly id: string
  readonly scope: BudgetStatus["scope"]
  readonly keys: KeyNames
  readonly known: ReadonlyArray<string> | undefined
}) => {
  if (scope === "key") {
    return (
      <>
        {ownerName({ key: id }, "key", keys)} {id === "platform" || !keys.has(id) ? null : <Id id={id} short />}
      </>
    )
  }
  // A budget's endpoint may not exist.
  return known?.includes(id) === false ? id : <Link to="/console/endpoints/$endpoint" params={{ endpoint: id }}>{id}</Link>
}

const PERIODS = { daily: "day", monthly: "month" } as const

const Row = ({ budget, currency, keys, known }: {
  readonly budget: BudgetStatus
  readonly currency: string
  readonly keys: KeyNames
  readonly known: ReadonlyArray<string> | undefined
}) => {
  const { id, limit, period, renewsAt, scope, spent } = budget
  const used = `${costText(spent)} of ${costText(limit)} ${currency}`
  return (
    <tr>
      <th scope="row">
        <Name id={id} scope={scope} keys={keys} known={known} />
        <span className="muted">{` each ${PERIODS[period]}`}</span>
      </th>
      <td>
        <State budget={budget} />
      </td>
      <td data-label="Used" className="breaks">
        <progress className="budget" max={limit} value={Math.min(spent, limit)} aria-label={`${scope} ${id}: ${used}`} />
        {used} <span className="muted">({percent(spent, limit)})</span>
      </td>
      <td data-label="Renews">
        <Time at={renewsAt} />
      </td>
    </tr>
  )
}

/** Says which budgets are used up, for the top of the page. */
export const ReachedBudgets = ({ budgets, keys }: { readonly budgets: ReadonlyArray<BudgetStatus>; readonly keys: KeyNames }) => {
  const names = budgets.flatMap(({ id, period, reached, scope }) =>
    reached ? [`${scope === "key" ? ownerName({ key: id }, "key", keys) : id} (${period})`] : []
  )
  return names.length === 0 ? null : (
    <p className="notice bad">
      {names.length === 1 ? "A budget is used up, and new jobs are refused: " : "Budgets are used up, and new jobs are refused: "}
      {names.join(", ")}. <a href="#budgets">Budgets</a>
    </p>
  )
}

/** The budgets that the key may see; budgets that are used up come first. */
export const Budgets = ({ budgets, currency, keys, known }: {
  readonly budgets: ReadonlyArray<BudgetStatus>
  readonly currency: string
  readonly keys: KeyNames
  readonly known: ReadonlyArray<string> | undefined
}) => (
  <section aria-labelledby="budgets">
    <h2 id="budgets">Budgets</h2>
    <table className="stacks">
      <thead>
        <tr>{["Budget", "State", "Used", "Renews"].map((name) => <th key={name} scope="col">{name}</th>)}</tr>
      </thead>
      <tbody>
        {budgets.toSorted((a, b) => Number(b.reached) - Number(a.reached)).map((budget) => (
          <Row
            key={`${budget.scope} ${budget.id} ${budget.period}`}
            budget={budget}
            currency={currency}
            keys={keys}
            known={known}
          />
        ))}
      </tbody>
    </table>
  </section>
)
