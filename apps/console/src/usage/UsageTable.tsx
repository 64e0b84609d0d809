/**
 * The sums of each endpoint, release or key, and their total.
 */
import type { UsageReport, UsageSums } from "@stint/contract/UsageApi"
import { costText, timeText } from "@stint/contract/UsageText"
import { Link } from "@tanstack/react-router"
import { percent } from "../format/Format.ts"
import { Id } from "../ui/Text.tsx"
import { type KeyNames, ownerName } from "./OwnerNames.ts"
import { type Measure, MEASURES } from "./UsageFilter.ts"
import { amountOf, type Owner } from "./UsageSums.ts"

const TIMES = [
  ["Execution", "executionSeconds"],
  ["Workers", "workerSeconds"],
  ["CPU", "cpuSeconds"],
  ["GPU", "gpuSeconds"]
] as const

const Amounts = ({ currency, sums }: { readonly sums: UsageSums; readonly currency: string | undefined }) => (
  <>
    <td className="number" data-label="Attempts">{sums.attempts.toLocaleString("en")}</td>
    {TIMES.map(([name, key]) => (
      <td key={key} className="number" data-label={name}>
        {sums[key] === 0 ? <span className="zero">-</span> : timeText(sums[key])}
      </td>
    ))}
    {currency === undefined ? null : <td className="number" data-label={`Cost (${currency})`}>{costText(sums.cost ?? 0)}</td>}
  </>
)

const Name = ({ keys, known, owner: { row }, report: { by } }: {
  readonly owner: Owner
  readonly report: UsageReport
  readonly keys: KeyNames
  readonly known: ReadonlyArray<string>
}) => {
  const { endpoint, key } = row
  if (by === "key") {
    if (key === undefined) {
      return (
        <>
          no key
          <div className="muted">hours of workers in which no job ran</div>
        </>
      )
    }
    return (
      <>
        {ownerName(row, by, keys)}
        {key === "platform" || key === "*" || !keys.has(key) ? null : (
          <div>
            <Id id={key} short />
          </div>
        )}
      </>
    )
  }
  const name = ownerName(row, by, keys)
  return endpoint !== undefined && known.includes(endpoint)
    ? <Link to="/console/endpoints/$endpoint" params={{ endpoint }}>{name}</Link>
    : (
      <>
        {name} <span className="muted">(removed)</span>
      </>
    )
}

const HEADS = { endpoint: "Endpoint", release: "Release", key: "Key" } as const

/** The table. `known`: the endpoints that exist; undefined while they load. */
export const UsageTable = ({ keys, known, measure, owners, report }: {
  readonly report: UsageReport
  readonly owners: ReadonlyArray<Owner>
  readonly measure: Measure
  readonly keys: KeyNames
  readonly known: ReadonlyArray<string> | undefined
}) => {
  const { by, currency, total } = report
  const whole = amountOf(total, measure)
  const measured = MEASURES.find(([one]) => one === measure)?.[1].toLowerCase()
  return (
    <table className="stacks">
      <thead>
        <tr>
          <th scope="col">{HEADS[by]}</th>
          <th scope="col" className="number" title={`Of the total ${measured}`}>Share</th>
          <th scope="col" className="number">Attempts</th>
          {TIMES.map(([name]) => <th key={name} scope="col" className="number">{name}</th>)}
          {currency === undefined ? null : <th scope="col" className="number">Cost ({currency})</th>}
        </tr>
      </thead>
      <tbody>
        {owners.map((owner) => (
          <tr key={owner.id}>
            <th scope="row" className="owner">
              <Name owner={owner} report={report} keys={keys} known={known ?? owners.flatMap(({ row }) => row.endpoint ?? [])} />
            </th>
            <td className="number" data-label="Share">{percent(amountOf(owner.sums, measure), whole)}</td>
            <Amounts sums={owner.sums} currency={currency} />
          </tr>
        ))}
      </tbody>
      <tfoot>
        <tr>
          <th scope="row">Total</th>
          <td className="number" />
          <Amounts sums={total} currency={currency} />
        </tr>
      </tfoot>
    </table>
  )
}
