/**
 * The releases of an endpoint: who deployed what and when, what it changed, and a rollback.
 */
import type { CanaryStatus, Release } from "@stint/contract/Release"
import { useQuery, useQueryClient } from "@tanstack/react-query"
import * as Api from "../api/Api.ts"
import { keyName } from "../format/Format.ts"
import type { Tone } from "../jobs/JobStates.ts"
import { useListPoll } from "../live/Connection.ts"
import { Confirm } from "../ui/Confirm.tsx"
import { Loaded } from "../ui/Loaded.tsx"
import { Badge } from "../ui/Status.tsx"
import { ActionsHead } from "../ui/Table.tsx"
import { Reason, Time } from "../ui/Text.tsx"
import { fileLines, type ReleaseChanges, releaseChanges } from "./ReleaseChanges.ts"

const STATES: Readonly<Record<string, readonly [Tone, string]>> = {
  canary: ["running", "Canary"],
  rolling: ["waiting", "Rolling out"],
  active: ["done", "Active"],
  failed: ["failed", "Failed"],
  superseded: ["ended", "Superseded"]
}

/** The changed settings with both values, and the changed files. */
export const ChangeList = ({ changes }: { readonly changes: ReleaseChanges }) => (
  <ul className="changes mono">
    {changes.settings.map(({ after, before, path }) => <li key={path}>{path}: {before ?? "not set"} → {after ?? "not set"}</li>)}
    {fileLines(changes).map((line) => <li key={line}>{line}</li>)}
  </ul>
)

const Changes = ({ before, release }: { readonly release: Release; readonly before: Release | undefined }) => {
  if (before === undefined) return <span className="muted">{release.number === 1 ? "the first release" : "not listed"}</span>
  const changes = releaseChanges(before, release)
  const [settings, files] = [changes.settings, fileLines(changes)]
  if (settings.length + files.length === 0) return <span className="muted">nothing</span>
  return (
    <details>
      <summary>
        {[
          ...(settings.length === 0 ? [] : [`${settings.length} ${settings.length === 1 ? "setting" : "settings"}`]),
          ...(files.length === 0 ? [] : [`${files.length} ${files.length === 1 ? "file" : "files"}`])
        ].join(", ")}
      </summary>
      <ChangeList changes={changes} />
    </details>
  )
}

/** How the attempts of a canary ended, next to those of the active release. */
const CanaryFigures = ({ active, canary, percent }: CanaryStatus) => (
  <p className="muted">
    {percent} % of the jobs. {canary.failed} of {canary.jobs} attempts failed; on the active release {active.failed} of{" "}
    {active.jobs}.
  </p>
)

const Row = ({ before, canary, onChange, release }: {
  readonly release: Release
  readonly before: Release | undefined
  readonly canary: CanaryStatus | undefined
  readonly onChange: () => void
}) => {
  const { activatedAt, createdAt, createdBy, endpoint, message, number, reason, rollbackOf, state } = release
  const [tone, word] = STATES[state] ?? ["ended", state]
  return (
    <tr>
      <th scope="row" className="number">{number}</th>
      <td>
        <Badge tone={tone}>{word}</Badge>
        {reason === undefined ? null : <Reason>{reason}</Reason>}
        {canary?.release === number && state === "canary" ? <CanaryFigures {...canary} /> : null}
      </td>
      <td data-label="Why">
        {message ?? (rollbackOf === undefined ? <span className="zero">no message</span> : `Back to release ${rollbackOf}`)}
      </td>
      <td data-label="Changes">
        <Changes release={release} before={before} />
      </td>
      <td data-label="By">{keyName(createdBy)}</td>
      <td data-label="Deployed">
        <Time at={createdAt} />
      </td>
      <td>
        <div className="actions">
          {state === "canary"
            ? (
              <>
                <Confirm
                  label="Promote"
                  title={`Run all jobs of ${endpoint} on release ${number}?`}
                  body="The workers of the canary replace those of the active release."
                  verb="Promote"
                  action={() => Api.promote(endpoint)}
                  onDone={onChange}
                />
                <Confirm
                  label="End the canary"
                  title={`Run no jobs of ${endpoint} on release ${number}?`}
                  body="The platform rolls back to the active release. The workers of the canary finish their jobs."
                  verb="End the canary"
                  action={() => Api.rollback(endpoint)}
                  onDone={onChange}
                />
              </>
            )
            : null}
          {state === "superseded" && activatedAt !== undefined
            ? (
              <Confirm
                label="Roll back"
                title={`Roll back ${endpoint} to release ${number}?`}
                body="The platform deploys the settings and the stored code of this release as a new release. The current workers serve until a worker of the new release is ready."
                verb="Roll back"
                action={() => Api.rollback(endpoint, number)}
                onDone={onChange}
              />
            )
            : null}
        </div>
      </td>
    </tr>
  )
}

/** The releases, newest first. */
export const Releases = ({ endpoint }: { readonly endpoint: string }) => {
  const client = useQueryClient()
  const query = useQuery({
    queryKey: ["releases", endpoint],
    queryFn: ({ signal }) => Api.releases(endpoint, signal),
    refetchInterval: useListPoll(4_000)
  })
  return (
    <Loaded query={query} rows={6}>
      {({ canary, releases }) =>
        releases.length === 0 ? <p className="empty">Nothing has been deployed yet.</p> : (
          <table className="stacks">
            <ActionsHead number="Release" names={["State", "Why", "Changes", "By", "Deployed"]} />
            <tbody>
              {releases.map((release, index) => (
                <Row
                  key={release.number}
                  release={release}
                  before={releases[index + 1]}
                  canary={canary}
                  onChange={() => void client.invalidateQueries({ queryKey: ["releases", endpoint] })}
                />
              ))}
            </tbody>
          </table>
        )}
    </Loaded>
  )
}
