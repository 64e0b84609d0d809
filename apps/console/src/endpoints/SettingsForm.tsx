/**
 * The settings of an endpoint: as a table, and as a form that shows what a deployment would change before it deploys.
 *
 * ```
 *   table --Change--> form --Review--> the differences --Deploy--> a release
 *                      ^                     |
 *                      +---- any change -----+
 * ```
 */
import type { Endpoint, EndpointSpec } from "@stint/contract/Endpoint"
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { type SubmitEvent, useMemo, useState } from "react"
import * as Api from "../api/Api.ts"
import { Choice, Text } from "../ui/Fields.tsx"
import { Loaded, Problem } from "../ui/Loaded.tsx"
import { SettingsTable } from "../ui/Table.tsx"
import { previewedChanges, releaseChanges } from "./ReleaseChanges.ts"
import { ChangeList } from "./Releases.tsx"
import { settingRows } from "./Settings.ts"
import { currentOf, type SettingsDraft, settingsDraftOf, settingsSpecOf, type TextSetting } from "./SettingsDraft.ts"
import { Variables } from "./Variables.tsx"

const SCALERS = {
  QUEUE_DELAY: "the wait of the oldest job",
  REQUEST_COUNT: "the number of jobs"
}

/** The differences, and the button that deploys them. */
const Review = ({ endpoint: before, onDeployed, spec }: {
  readonly endpoint: Endpoint
  readonly spec: EndpointSpec
  readonly onDeployed: (release: number) => void
}) => {
  const [message, setMessage] = useState("")
  const endpoint = before.id
  // The platform compares with the files as they are now.
  const query = useQuery({
    queryKey: ["preview", endpoint, spec],
    queryFn: ({ signal }) => Api.previewRelease(endpoint, spec, signal),
    staleTime: 0,
    gcTime: 0,
    refetchOnWindowFocus: false
  })
  const { error, isPending, mutate } = useMutation({
    mutationFn: (expected: number) => Api.deployRelease(endpoint, { spec, message, expected }),
    onSuccess: ({ number }) => onDeployed(number)
  })
  return (
    <Loaded query={query} rows={3}>
      {(preview) => {
        if (!preview.changes) return <p className="empty">These are the current settings, and the code has not changed.</p>
        const changes = preview.active === undefined
          // Nothing has been deployed yet, so the platform has no release to compare with.
          ? {
            ...previewedChanges(preview),
            settings: releaseChanges({ settings: currentOf(before) }, { settings: spec }).settings
          }
          : previewedChanges(preview)
        const hasCode = changes.added.length + changes.removed.length + changes.changed.length > 0 || changes.packagesOnly
        return (
          <>
            <h3>{preview.active === undefined ? "The first release" : `Compared with release ${preview.active}`}</h3>
            <ChangeList changes={changes} />
            {hasCode && preview.active !== undefined
              ? <p className="notice">The handler's files have changed since the last deployment. This deploys them as well.</p>
              : null}
            <Text
              label="Why (optional)"
              value={message}
              placeholder="More workers for the sale"
              problem={undefined}
              onChange={setMessage}
            />
            {error === null ? null : <Problem error={error} />}
            <div className="actions">
              <button
                type="button"
                className="button primary"
                disabled={isPending}
                onClick={() => mutate(preview.active ?? 0)}
              >
                Deploy
              </button>
            </div>
          </>
        )
      }}
    </Loaded>
  )
}

const Form = ({ endpoint, onClose, onDeployed }: {
  readonly endpoint: Endpoint
  readonly onClose: () => void
  readonly onDeployed: (release: number) => void
}) => {
  const [draft, setDraft] = useState<SettingsDraft>(() => settingsDraftOf(endpoint))
  const [reviewed, setReviewed] = useState<EndpointSpec>()
  const checked = useMemo(() => settingsSpecOf(draft, endpoint), [draft, endpoint])
  const problems = "problems" in checked ? checked.problems : {}
  const change = (changed: Partial<SettingsDraft>) => {
    setDraft({ ...draft, ...changed })
    setReviewed(undefined)
  }
  const field = (label: string, name: TextSetting, type: "number" | "text" = "number") => (
    <Text
      label={label}
      type={type}
      value={draft[name]}
      problem={problems[name]}
      onChange={(value) => change({ [name]: value })}
    />
  )
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    if ("spec" in checked) setReviewed(checked.spec)
  }
  return (
    <form className="form" onSubmit={submit}>
      <div className="columns">
        {endpoint.source.type === "external" ? null : (
          <>
            {field("Minimum workers", "min")}
            {field("Maximum workers (0 pauses)", "max")}
            {field("Idle timeout of a worker, seconds", "idleSeconds")}
            <Choice
              label="Scale by"
              value={draft.scaler}
              options={SCALERS}
              onChange={(scaler) => change({ scaler })}
            />
            {field(draft.scaler === "QUEUE_DELAY" ? "Wait that adds a worker, seconds" : "Jobs per worker", "scalerValue")}
          </>
        )}
        {field("Execution timeout, seconds", "executionSeconds")}
        {field("Time to live of a job, seconds", "ttlSeconds")}
        {field("Attempts after lost workers", "maxAttempts")}
        {field("Lease, seconds", "leaseSeconds")}
        {field("Retention of ended jobs, seconds", "retentionSeconds")}
        {field("Most waiting jobs (optional)", "waitingJobs")}
        {field("Concurrency key (optional)", "concurrencyKey", "text")}
        {field("Running jobs with the same key", "concurrencyLimit")}
        {field("Calls of a key per window (optional)", "rateCalls")}
        {field("Window, seconds", "rateSeconds")}
      </div>
      <p className="muted">
        A concurrency key such as <code>input.customer</code>{" "}
        limits how many jobs with the same value run at a time. Any other text is the key of all jobs.
      </p>
      <Variables
        title="Environment variables"
        empty="The workers get no variables of their own."
        add="Add a variable"
        variables={draft.variables}
        problems={problems.variables ?? []}
        onChange={(variables) => change({ variables })}
      />
      <div className="actions">
        <button type="submit" className="button" disabled={!("spec" in checked) || reviewed !== undefined}>
          Review the changes
        </button>
        <button type="button" className="button" onClick={onClose}>Back</button>
      </div>
      {reviewed === undefined ? null : (
        <div aria-live="polite">
          <Review endpoint={endpoint} spec={reviewed} onDeployed={onDeployed} />
        </div>
      )}
    </form>
  )
}

/** The settings, with a button that changes them. */
export const SettingsTab = ({ endpoint }: { readonly endpoint: string }) => {
  const client = useQueryClient()
  const [isEdited, setEdited] = useState(false)
  const [deployed, setDeployed] = useState<number>()
  const query = useQuery({ queryKey: ["settings", endpoint], queryFn: ({ signal }) => Api.settings(endpoint, signal) })
  const showDeployed = (release: number) => {
    setDeployed(release)
    setEdited(false)
    for (const key of ["settings", "releases", "endpoint"]) void client.invalidateQueries({ queryKey: [key, endpoint] })
  }
  return (
    <Loaded query={query} rows={10}>
      {(settings) =>
        isEdited
          ? <Form endpoint={settings} onClose={() => setEdited(false)} onDeployed={showDeployed} />
          : (
            <>
              {deployed === undefined ? null : (
                <p className="notice" role="status">
                  Release {deployed}{" "}
                  has been deployed; the tab Releases shows whether it serves. If a configuration file defines this endpoint,
                  change it there too: the next deployment of the file would undo the change.
                </p>
              )}
              <SettingsTable rows={settingRows(settings).map(({ name, value }) => [name, value])} />
              <div className="actions">
                <button type="button" className="button" onClick={() => setEdited(true)}>Change the settings</button>
              </div>
            </>
          )}
    </Loaded>
  )
}
