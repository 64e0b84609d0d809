/**
 * Audit: who changed what, newest first, filtered by the parameters in the address.
 */
import type { AuditEntry } from "@stint/contract/Audit"
import { useInfiniteQuery } from "@tanstack/react-query"
import { useNavigate, useSearch } from "@tanstack/react-router"
import * as Api from "../api/Api.ts"
import { AUDIT_RESULTS, type AuditFilter, auditFilterOf } from "../audit/AuditFilter.ts"
import { queryOfFilter } from "../format/AddressQuery.ts"
import { Chips } from "../ui/Choices.tsx"
import { FilterText } from "../ui/Fields.tsx"
import { Loading, Problem } from "../ui/Loaded.tsx"
import { MoreButton } from "../ui/MoreButton.tsx"
import { Badge } from "../ui/Status.tsx"
import { Id, Time } from "../ui/Text.tsx"

const TONES = { done: "done", refused: "failed", failed: "waiting" } as const
const WORDS = { done: "Done", refused: "Refused", failed: "Failed" } as const

const PAGE = 50

const Row = ({ entry }: { readonly entry: AuditEntry }) => (
  <tr>
    <th scope="row">{entry.action}</th>
    <td>
      <Badge tone={TONES[entry.result]}>
        {entry.result === "done" ? WORDS.done : `${WORDS[entry.result]} (${entry.status})`}
      </Badge>
    </td>
    <td data-label="On" className="breaks">{entry.target}</td>
    <td data-label="By">
      {entry.name}
      {entry.via === "console" ? <span className="muted">{" in the console"}</span> : null}
    </td>
    <td data-label="Key">
      <Id id={entry.key} />
    </td>
    <td data-label="From">{entry.address}</td>
    <td data-label="When">
      <Time at={entry.at} />
    </td>
  </tr>
)

const List = ({ filter }: { readonly filter: AuditFilter }) => {
  const query = useInfiniteQuery({
    queryKey: ["audit", filter],
    initialPageParam: 0,
    queryFn: ({ pageParam, signal }) => Api.audit({ ...filter, limit: PAGE, cursor: pageParam || undefined }, signal),
    getNextPageParam: ({ cursor }) => cursor ?? undefined
  })
  const { data, error, refetch } = query
  if (data === undefined) return error === null ? <Loading rows={8} /> : <Problem error={error} onRetry={() => void refetch()} />
  const entries = data.pages.flatMap((page) => page.entries)
  return (
    <>
      {error === null ? null : <Problem error={error} onRetry={() => void refetch()} />}
      {entries.length === 0
        ? (
          <p className="empty">
            {Object.values(filter).some((value) => value !== "")
              ? "No operation matches. Remove a filter to see the others."
              : "Nothing has been changed yet."}
          </p>
        )
        : (
          <table className="stacks">
            <thead>
              <tr>
                {["Action", "Result", "On", "By", "Key", "From", "When"].map((name) => <th key={name} scope="col">{name}</th>)}
              </tr>
            </thead>
            <tbody>{entries.map((entry) => <Row key={entry.id} entry={entry} />)}</tbody>
          </table>
        )}
      <MoreButton query={query}>Show older operations</MoreButton>
    </>
  )
}

const AuditPage = () => {
  const filter = auditFilterOf(useSearch({ strict: false }))
  const navigate = useNavigate()
  const set = (change: Partial<AuditFilter>) => {
    void navigate({ to: "/console/audit", search: queryOfFilter({ ...filter, ...change }), replace: true })
  }
  return (
    <>
      <h1>Audit</h1>
      <div className="filters">
        <FilterText label="Action" value={filter.action} placeholder="keys.createKey" onChange={(action) => set({ action })} />
        <FilterText label="Target" value={filter.target} placeholder="endpoint/hello" onChange={(target) => set({ target })} />
        <FilterText label="Key" value={filter.key} placeholder="id or name" onChange={(key) => set({ key })} />
      </div>
      <Chips
        label="Result"
        choices={[["", "All"], ...AUDIT_RESULTS.map((one) => [one, WORDS[one]] as const)]}
        value={filter.result}
        onChoose={(result) => set({ result })}
      />
      <List key={JSON.stringify(filter)} filter={filter} />
    </>
  )
}

export default AuditPage
