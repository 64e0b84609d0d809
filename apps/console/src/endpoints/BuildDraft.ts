/**
 * The build settings of an endpoint as typed into the form, and the resulting settings.
 */
import type { BuildSettings } from "@stint/contract/Build"
import type { SecretName } from "@stint/contract/Secret"
import { isSecretName, problemWith, type Range, textOf, type VariableDraft } from "./SettingsDraft.ts"

/** The texts of the fields. Empty: the platform's default. */
export interface BuildDraft {
  readonly repository: string
  readonly ref: string
  readonly dockerfile: string
  readonly context: string
  readonly handler: string
  readonly baseImage: string
  readonly credential: string
  readonly webhookSecret: string
  /** Which webhooks start a build after the first successful one. */
  readonly builds: "pushes" | "releases"
  readonly canaryPercent: string
  readonly canaryJobs: string
  readonly canaryPoints: string
  readonly timeoutMinutes: string
  /** Build arguments (`value`) and secrets of the build (`secret`). */
  readonly values: ReadonlyArray<VariableDraft>
}

/** The fields that are texts. */
export type BuildText = Exclude<keyof BuildDraft, "builds" | "values">

/** What is wrong with each field, and with each value by its index. */
export type BuildProblems = { readonly [field in BuildText]?: string } & { readonly values?: ReadonlyArray<string | undefined> }

const MINUTE = 60_000

/** The texts of the fields. Null: the endpoint is not built from a repository yet. */
export const buildDraftOf = (settings: BuildSettings | null): BuildDraft => ({
  repository: settings?.repository ?? "",
  ref: textOf(settings?.ref),
  dockerfile: textOf(settings?.dockerfile),
  context: textOf(settings?.context),
  handler: textOf(settings?.handler),
  baseImage: textOf(settings?.baseImage),
  credential: textOf(settings?.credential),
  webhookSecret: textOf(settings?.webhookSecret),
  builds: settings?.onPush === true ? "pushes" : "releases",
  canaryPercent: textOf(settings?.canary?.percent),
  canaryJobs: textOf(settings?.canary?.minJobs),
  canaryPoints: textOf(settings?.canary?.maxPoints),
  timeoutMinutes: settings?.timeoutMs === undefined ? "" : String(settings.timeoutMs / MINUTE),
  values: [
    ...Object.entries(settings?.args ?? {}).map(([name, value]) => ({ name, kind: "value" as const, value })),
    ...Object.entries(settings?.secrets ?? {}).map(([name, value]) => ({ name, kind: "secret" as const, value: String(value) }))
  ]
})

/** The platform checks all of this again (packages/contract/src/control/Build.ts). */
const REPOSITORY = /^(?:(?:https?|ssh|file):\/\/|[\w.-]+@[\w.-]+:|\/)\S+$/
const VALUE_NAME = /^[A-Za-z_][\w.-]{0,99}$/

const RANGES = {
  canaryPercent: { from: 1, to: 50, isWhole: true },
  canaryJobs: { from: 1, to: 100_000, isWhole: true },
  canaryPoints: { from: 0, to: 100 },
  timeoutMinutes: { from: 0.2, to: 1_440 }
} satisfies { readonly [field in BuildText]?: Range }

const NUMBERS = ["canaryPercent", "canaryJobs", "canaryPoints", "timeoutMinutes"] as const

const isOutside = (path: string): boolean => path.startsWith("/") || path.split("/").includes("..")

const valueProblems = (values: BuildDraft["values"]): ReadonlyArray<string | undefined> | undefined => {
  const problems = values.map(({ kind, name, value }, index) => {
    if (!VALUE_NAME.test(name)) return "Write a name of letters, digits, _ - and ., which begins with a letter or _."
    // An argument and a secret may have the same name.
    if (values.findIndex((other) => other.kind === kind && other.name === name) < index) return "Another one has this name."
    return kind === "secret" && !isSecretName(value) ? "Write the name of a secret." : undefined
  })
  return problems.some((problem) => problem !== undefined) ? problems : undefined
}

const problemsOf = (draft: BuildDraft): BuildProblems => {
  const problems: { -readonly [field in BuildText]?: string } = {}
  if (!REPOSITORY.test(draft.repository.trim())) {
    problems.repository = "Write https://HOST/PATH, ssh://git@HOST/PATH, git@HOST:PATH or file:///PATH."
  } else if (/^https?:\/\/[^/]*@/.test(draft.repository.trim())) {
    problems.repository = "Store the token as a secret, and name it as the credential."
  }
  for (const field of ["dockerfile", "context", "handler"] as const) {
    if (isOutside(draft[field].trim())) problems[field] = "Write a path from the repository's root, without .."
  }
  for (const field of ["credential", "webhookSecret"] as const) {
    if (draft[field].trim() !== "" && !isSecretName(draft[field].trim())) problems[field] = "Write the name of a secret."
  }
  for (const field of NUMBERS) {
    const problem = draft[field].trim() === "" ? undefined : problemWith(draft[field], RANGES[field])
    if (problem !== undefined) problems[field] = problem
  }
  if (draft.canaryPercent.trim() === "" && draft.canaryJobs.trim() + draft.canaryPoints.trim() !== "") {
    problems.canaryPercent = "Write the share of the jobs, or leave all three empty."
  }
  const values = valueProblems(draft.values)
  return values === undefined ? problems : { ...problems, values }
}

/** The settings without the empty texts. */
const given = <Name extends string, A>(
  texts: Readonly<Record<Name, string>>,
  read: (text: string) => A | undefined
): { readonly [name in Name]?: A } => {
  const settings: { [name in Name]?: A } = {}
  for (const name in texts) {
    const value = texts[name].trim() === "" ? undefined : read(texts[name].trim())
    if (value !== undefined) settings[name] = value
  }
  return settings
}

const secretNameOf = (text: string): SecretName | undefined => isSecretName(text) ? text : undefined

/** The settings to save, or what is wrong with each field. */
export const buildSettingsOf = (
  draft: BuildDraft
): { readonly settings: BuildSettings } | { readonly problems: BuildProblems } => {
  const problems = problemsOf(draft)
  if (Object.keys(problems).length > 0) return { problems }
  const { baseImage, canaryJobs, canaryPercent, canaryPoints, context, credential, dockerfile, handler, ref, timeoutMinutes } =
    draft
  const { builds, repository, values, webhookSecret } = draft
  const args = values.filter(({ kind }) => kind === "value").map(({ name, value }) => [name, value] as const)
  const secrets = values.flatMap(({ kind, name, value }) =>
    kind === "secret" && isSecretName(value) ? [[name, value] as const] : []
  )
  return {
    settings: {
      repository: repository.trim(),
      ...given({ ref, dockerfile, context, handler, baseImage }, (text) => text),
      ...given({ credential, webhookSecret }, secretNameOf),
      ...(args.length === 0 ? {} : { args: Object.fromEntries(args) }),
      ...(secrets.length === 0 ? {} : { secrets: Object.fromEntries(secrets) }),
      ...(builds === "pushes" ? { onPush: true } : {}),
      ...(canaryPercent.trim() === "" ? {} : {
        canary: {
          percent: Number(canaryPercent),
          // The defaults of the platform.
          minJobs: canaryJobs.trim() === "" ? 50 : Number(canaryJobs),
          maxPoints: canaryPoints.trim() === "" ? 5 : Number(canaryPoints)
        }
      }),
      ...given({ timeoutMs: timeoutMinutes }, (text) => Math.round(Number(text) * MINUTE))
    }
  }
}
