/**
 * The form for the build settings of an endpoint: the repository, what is built from it, and how its image is deployed.
 */
import type { BuildSettings } from "@stint/contract/Build"
import { type SubmitEvent, useMemo, useState } from "react"
import { Choice, Text } from "../ui/Fields.tsx"
import { type BuildDraft, buildDraftOf, buildSettingsOf, type BuildText } from "./BuildDraft.ts"
import { Variables } from "./Variables.tsx"

const BUILDS = {
  releases: "releases of the repository",
  pushes: "releases and pushes to the branch"
}

/** `children`: fields before the repository's, and what is wrong with the settings on the platform. */
export const BuildForm = ({ children, isSaving, onClose, onSave, save, settings }: {
  readonly children?: React.ReactNode
  /** Null: there are none yet. */
  readonly settings: BuildSettings | null
  /** The text of the button that saves. */
  readonly save: string
  readonly isSaving: boolean
  readonly onSave: (settings: BuildSettings) => void
  readonly onClose: () => void
}) => {
  const [draft, setDraft] = useState<BuildDraft>(() => buildDraftOf(settings))
  // A new form shows what is wrong after the first attempt to save.
  const [isChecked, setChecked] = useState(settings !== null)
  const result = useMemo(() => buildSettingsOf(draft), [draft])
  const problems = "problems" in result && isChecked ? result.problems : {}
  const change = (changed: Partial<BuildDraft>) => setDraft({ ...draft, ...changed })
  const field = (label: string, name: BuildText, placeholder: string, type: "number" | "text" = "text") => (
    <Text
      label={label}
      type={type}
      value={draft[name]}
      placeholder={placeholder}
      problem={problems[name]}
      onChange={(value) => change({ [name]: value })}
    />
  )
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    setChecked(true)
    if ("settings" in result) onSave(result.settings)
  }
  return (
    <form className="form" onSubmit={submit}>
      {children}
      {field("Repository", "repository", "https://git.example.com/team/words.git")}
      <div className="columns">
        {field("Branch, tag or commit", "ref", "the default branch")}
        {field("Build context (a folder)", "context", "the root")}
        {field("Dockerfile", "dockerfile", "Dockerfile")}
        {field("Handler, if there is no Dockerfile", "handler", "handler.ts")}
        {field("Base image of a generated Dockerfile", "baseImage", "the official image of the language")}
        {field("Time limit, minutes", "timeoutMinutes", "60", "number")}
        {field("Secret with the deploy key or token", "credential", "none")}
        {field("Secret that signs webhooks", "webhookSecret", "none: webhooks are rejected")}
        <Choice
          label="Webhooks start builds for"
          value={draft.builds}
          options={BUILDS}
          onChange={(builds) => change({ builds })}
        />
        {field("Canary, percent of the jobs", "canaryPercent", "no canary", "number")}
        {field("Canary, attempts to compare", "canaryJobs", "50", "number")}
        {field("Canary, points before a rollback", "canaryPoints", "5", "number")}
      </div>
      <Variables
        title="Build arguments and secrets"
        empty="The build gets no arguments and no secrets."
        add="Add a value"
        variables={draft.values}
        problems={problems.values ?? []}
        onChange={(values) => change({ values })}
      />
      <p className="muted">
        A value is an <code>ARG</code>{" "}
        of the Dockerfile and is visible in the image. A secret is not part of the image: the Dockerfile reads it with{" "}
        <code>RUN --mount=type=secret,id=NAME</code>.
      </p>
      <div className="actions">
        <button type="submit" className="button primary" disabled={isSaving || (isChecked && "problems" in result)}>
          {save}
        </button>
        <button type="button" className="button" onClick={onClose}>Back</button>
      </div>
    </form>
  )
}
