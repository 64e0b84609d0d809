/**
 * The builds of an endpoint from its Git repository: what was built and released, each log as it is written, buttons that start, cancel and
 * deploy builds, and the form of the build settings. The endpoint need not exist yet: its first successful build creates it.
 */
import { type Build, type BuildSettings, hasEnded } from "@stint/contract/Build"
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { useCallback, useState } from "react"
import * as Api from "../api/Api.ts"
import { clockTime, duration, keyName } from "../format/Format.ts"
import type { Tone } from "../jobs/JobStates.ts"
import { useNow } from "../live/Clock.ts"
import { useListPoll } from "../live/Connection.ts"
import { Confirm } from "../ui/Confirm.tsx"
import { Loaded, Problem } from "../ui/Loaded.tsx"
import { LogBox } from "../ui/LogBox.tsx"
import { Badge } from "../ui/Status.tsx"
import { ActionsHead } from "../ui/Table.tsx"
import { Reason, Time } from "../ui/Text.tsx"
import { BuildForm } from "./BuildForm.tsx"
import { useBuildLog } from "./useBuildLog.ts"

const STATES: Readonly<Record<Build["state"], readonly [Tone, string]>> = {
  queued: ["waiting", "Queued"],
  running: ["running", "Building"],
  succeeded: ["done", "Succeeded"],
  failed: ["failed", "Failed"],
  cancelled: ["ended", "Cancelled"]
}

/** The log of one build. */
const BuildLog = ({ build: { endpoint, number }, onEnd }: { readonly build: Build; readonly onEnd: () => void }) => {
  const { dropped, hasEnded, isRefused, lines } = useBuildLog(endpoint, number, onEnd)
  if (isRefused) return <p className="problem" role="alert">The platform no longer has this log.</p>
  return (
    <>
      {dropped === 0 ? null : <p className="muted">{dropped} older lines are not shown: stint builds logs {endpoint} {number}</p>}
      <LogBox count={lines.length} label={`Log of build ${number}`}>
        {lines.map((line) => (
          <div key={line.number} className="log-line build-line">
            <span className="log-time">{clockTime(line.time)}</span>
            <span className="log-text">{line.text}</span>
          </div>
        ))}
      </LogBox>
      {hasEnded && lines.length === 0 ? <p className="empty">The build printed nothing.</p> : null}
    </>
  )
}

const Row = ({ build, canDeploy, isOpen, now, onChange, onToggle }: {
  readonly build: Build
  /** Whether its image may be deployed again. */
  readonly canDeploy: boolean
  readonly isOpen: boolean
  readonly now: number
  readonly onChange: () => void
  readonly onToggle: () => void
}) => {
  const {
    commit,
    createdAt,
    createdBy,
    endedAt,
    endpoint,
    message,
    number,
    reason,
    release,
    settings,
    startedAt,
    state,
    warnings
  } = build
  const [tone, word] = STATES[state]
  return (
    <tr>
      <th scope="row" className="number">{number}</th>
      <td>
        <Badge tone={tone}>{word}</Badge>
        {reason === undefined ? null : <Reason>{reason}</Reason>}
        {warnings.map((warning) => <p key={warning} className="muted advice">{warning}</p>)}
      </td>
      <td data-label="Commit" className="mono">
        {settings.ref ?? "default branch"}
        {commit === undefined ? null : <span className="muted below">{commit.slice(0, 8)}</span>}
      </td>
      <td data-label="Release">{release === undefined ? <span className="zero">none</span> : release}</td>
      <td data-label="Why">
        {message ?? <span className="zero">{build.trigger === "manual" ? "no message" : build.trigger}</span>}
      </td>
      <td data-label="By">{keyName(createdBy)}</td>
      <td data-label="Started">
        <Time at={createdAt} />
        {startedAt === undefined
          ? null
          : (
            <span className="muted">
              {endedAt === undefined ? ", for" : ", took"} {duration(Math.max(0, (endedAt ?? now) - startedAt))}
            </span>
          )}
      </td>
      <td>
        <div className="actions">
          <button type="button" className="button" aria-expanded={isOpen} onClick={onToggle}>
            {isOpen ? "Hide the log" : "Log"}
          </button>
          {hasEnded(build) ? null : (
            <Confirm
              label="Cancel"
              name={`Cancel build ${number}`}
              title={`Cancel build ${number} of ${endpoint}?`}
              body="The build stops and releases nothing. The endpoint keeps its release."
              verb="Cancel the build"
              danger
              action={() => Api.cancelBuild(endpoint, number)}
              onDone={onChange}
            />
          )}
          {canDeploy
            ? (
              <Confirm
                label="Deploy"
                name={`Deploy build ${number}`}
                title={`Deploy the image of build ${number} to ${endpoint}?`}
                body="The image runs with the current settings of the endpoint, as a new release."
                verb="Deploy"
                action={() => Api.deployBuild(endpoint, number)}
                onDone={onChange}
              />
            )
            : null}
        </div>
      </td>
    </tr>
  )
}

const Table = ({ builds, onChange }: { readonly builds: ReadonlyArray<Build>; readonly onChange: () => void }) => {
  const now = useNow()
  const [open, setOpen] = useState<number | undefined>(() => builds.find((build) => !hasEnded(build))?.number)
  const newest = builds.find(({ state }) => state === "succeeded")
  const shown = builds.find(({ number }) => number === open)
  return (
    <>
      <table className="stacks">
        <ActionsHead number="Build" names={["State", "Commit", "Release", "Why", "By", "Started"]} />
        <tbody>
          {builds.map((build) => (
            <Row
              key={build.number}
              build={build}
              canDeploy={build.state === "succeeded" && build !== newest}
              isOpen={build.number === open}
              now={now}
              onChange={onChange}
              onToggle={() => setOpen(build.number === open ? undefined : build.number)}
            />
          ))}
        </tbody>
      </table>
      {shown === undefined ? null : (
        <>
          <h3>Log of build {shown.number}</h3>
          <BuildLog key={shown.number} build={shown} onEnd={onChange} />
        </>
      )}
    </>
  )
}

/** The form that replaces the build settings. */
const Settings = ({ endpoint, onClose, onSaved, settings }: {
  readonly endpoint: string
  readonly settings: BuildSettings | null
  readonly onClose: () => void
  readonly onSaved: () => void
}) => {
  const { error, isPending, mutate } = useMutation({
    mutationFn: (changed: BuildSettings) => Api.saveBuildSettings(endpoint, changed),
    onSuccess: onSaved
  })
  return (
    <BuildForm settings={settings} save="Save" isSaving={isPending} onSave={mutate} onClose={onClose}>
      {error === null ? null : <Problem error={error} />}
    </BuildForm>
  )
}

/** The repository, the button that builds it, and the builds. */
const Repository = ({ endpoint, onEdit, settings: source }: {
  readonly endpoint: string
  readonly settings: BuildSettings
  readonly onEdit: () => void
}) => {
  const client = useQueryClient()
  const query = useQuery({
    queryKey: ["builds", endpoint],
    queryFn: ({ signal }) => Api.builds(endpoint, signal),
    refetchInterval: useListPoll(4_000)
  })
  const refresh = useCallback(() => {
    for (const key of ["builds", "releases", "settings"]) void client.invalidateQueries({ queryKey: [key, endpoint] })
  }, [client, endpoint])
  return (
    <>
      <div className="heading">
        <p className="mono breaks">{source.repository}{source.ref === undefined ? "" : ` at ${source.ref}`}</p>
        <div className="actions">
          <button type="button" className="button" onClick={onEdit}>Change the build settings</button>
          <Confirm
            label="Build"
            title={`Build ${endpoint} now?`}
            body={`The platform builds ${source.ref ?? "the default branch"} of ${source.repository}, and deploys the image${
              source.canary === undefined ? "" : ` as a canary for ${source.canary.percent} % of the jobs`
            }.`}
            verb="Start the build"
            action={() => Api.startBuild(endpoint)}
            onDone={refresh}
          />
        </div>
      </div>
      <Loaded query={query} rows={4}>
        {({ builds }) =>
          builds.length === 0
            ? <p className="empty">Nothing has been built yet.</p>
            : <Table builds={builds} onChange={refresh} />}
      </Loaded>
    </>
  )
}

/** The builds, newest first, and the settings of the next one. */
export const Builds = ({ endpoint }: { readonly endpoint: string }) => {
  const client = useQueryClient()
  const [isEdited, setEdited] = useState(false)
  const settings = useQuery({
    queryKey: ["build-settings", endpoint],
    queryFn: ({ signal }) => Api.buildSettings(endpoint, signal)
  })
  return (
    <Loaded query={settings} rows={2}>
      {(source) =>
        isEdited
          ? (
            <Settings
              endpoint={endpoint}
              settings={source}
              onClose={() => setEdited(false)}
              onSaved={() => {
                setEdited(false)
                void client.invalidateQueries({ queryKey: ["build-settings", endpoint] })
              }}
            />
          )
          : source === null
          ? (
            <div className="empty">
              <p>This endpoint is not built from a repository.</p>
              <div className="actions">
                <button type="button" className="button" onClick={() => setEdited(true)}>Build it from a repository</button>
              </div>
            </div>
          )
          : <Repository endpoint={endpoint} settings={source} onEdit={() => setEdited(true)} />}
    </Loaded>
  )
}
