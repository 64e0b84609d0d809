/**
 * Budgets: what is used, and when they renew.
 */
import type { BudgetStatus } from "@stint/contract/UsageApi"
import { costText } from "@stint/contract/UsageText"
import { Link } from "@tanstack/react-router"
import { percent } from "../format/Format.ts"
import { Badge } from "../ui/Status.tsx"
import { Id, Time } from "../ui/Text.tsx"
import type { KeyNames } from "./OwnerNames.ts"

/** From this share on, a budget is shown as nearly used up. */
const NEARLY = 0.8

const State = ({ budget: { limit, reached, spent } }: { readonly budget: BudgetStatus }) =>
  reached
    ? <Badge tone="failed">New jobs are refused</Badge>
    : spent >= limit * NEARLY
    ? <Badge tone="waiting">Nearly used up</Badge>
    : <Badge tone="done">Open</Badge>

const PERIODS = { daily: "day", monthly: "month" } as const

const Row = ({ budget, currency, keys }: {
  readonly budget: BudgetStatus
  readonly currency: string
  readonly keys: KeyNames
}) => {
  const { id, limit, period, renewsAt, scope, spent } = budget
  const used = `${costText(spent)} of ${costText(limit)} ${currency}`
  return (
    <tr>
      <th scope="row">
        {scope === "endpoint"
          ? <Link to="/console/endpoints/$endpoint" params={{ endpoint: id }}>{id}</Link>
          : (
            <>
              key {keys.get(id) ?? ""} <Id id={id} short />
            </>
          )}
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

/** The budgets that the key may see. */
export const Budgets = ({ budgets, currency, keys }: {
  readonly budgets: ReadonlyArray<BudgetStatus>
  readonly currency: string
  readonly keys: KeyNames
}) => (
  <section aria-labelledby="budgets">
    <h2 id="budgets">Budgets</h2>
    <table className="stacks">
      <thead>
        <tr>{["Budget", "State", "Used", "Renews"].map((name) => <th key={name} scope="col">{name}</th>)}</tr>
      </thead>
      <tbody>
        {budgets.map((budget) => (
          <Row key={`${budget.scope} ${budget.id} ${budget.period}`} budget={budget} currency={currency} keys={keys} />
        ))}
      </tbody>
    </table>
  </section>
)
