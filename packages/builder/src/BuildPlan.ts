/**
 * Checks a cloned repository, and determines which Dockerfile and context to build. Pure, over the names of the files.
 *
 * Only a missing Dockerfile or context stops a build. Errors that the engine would detect itself are explained after the build has failed
 * ({@link explainCopy}), so that a check cannot reject a repository that builds.
 */
import type { BuildSettings } from "@stint/contract/Build"
import type { EndpointId } from "@stint/contract/Ids"
import { type BuildFailed, failed } from "./BuildError.ts"
import { normal, parse } from "./Dockerfile.ts"

/** What to build. Paths are relative to the repository's root; the root is `""`. */
export interface BuildPlan {
  readonly context: string
  /** Undefined: it is generated. */
  readonly dockerfile: string | undefined
  /** The handler of a generated Dockerfile, relative to the context. */
  readonly handler: string | undefined
}

/** A repository. */
export interface Repository {
  readonly endpoint: EndpointId
  readonly settings: BuildSettings
  /** All files, relative to the root. */
  readonly files: ReadonlyArray<string>
  /** The text of a file; undefined when it cannot be read or is too large. */
  readonly read: (file: string) => string | undefined
}

const DOCKERFILE = /(?:^|\/)(?:Dockerfile|Containerfile)(?:\.[^/]*)?$/i

/** The file names of possible handlers in a repository without a Dockerfile. */
const HANDLER = /^(?:src\/)?(?:handler|rp_handler|main|index)\.(?:py|ts|js|mjs)$/

const has = (files: ReadonlyArray<string>, path: string): boolean =>
  path === "" || files.some((file) => file === path || file.startsWith(`${path}/`))

const inFolder = (folder: string, path: string): string => normal(folder === "" ? path : `${folder}/${path}`)

const folderOf = (file: string): string => file.includes("/") ? file.slice(0, file.lastIndexOf("/")) : ""

/** `the repository's root`, or the name of a folder. */
const folderText = (folder: string): string => folder === "" ? "the repository's root" : `the folder ${folder}`

const change = (endpoint: string, flag: string, value: string): string =>
  `stint builds settings ${endpoint} ${flag} ${value === "" ? "." : value}`

/** Whether a file calls `start()`. Calls in comments and strings count too, because the result is only advice. */
const callsStart = (text: string): boolean => /\bstart\s*\(/.test(text)

const SOURCE = /\.(?:py|[cm]?[jt]s)$/

/** The number of files that are searched for `start()`. */
const MAX_SEARCHED = 500

/** The number of characters that are searched for `start()`. Limited, because the search blocks the platform. */
const MAX_SEARCHED_LENGTH = 8 * 1024 * 1024

/** Advice if no file in the context calls `start()`. Also undefined if not all files can be searched. */
export const startAdvice = ({ files, read }: Repository, { context }: BuildPlan): string | undefined => {
  const sources = files.filter((file) => SOURCE.test(file) && (context === "" || file.startsWith(`${context}/`)))
  if (sources.length > MAX_SEARCHED) return undefined
  let length = 0
  for (const file of sources) {
    const text = read(file)
    length += text?.length ?? 0
    if (text === undefined || length > MAX_SEARCHED_LENGTH || callsStart(text)) return undefined
  }
  return `No Python, TypeScript or JavaScript file in ${
    folderText(context)
  } calls start(). Unless the program is in the base image, its ` +
    "workers will not take jobs."
}

const handlerOf = (repository: Repository, context: string): string | BuildFailed => {
  const { endpoint, files, read, settings } = repository
  if (settings.handler !== undefined) {
    const handler = normal(settings.handler)
    if (!files.includes(handler)) {
      const same = files.find((file) => file.endsWith(`/${handler}`))
      return failed(
        `The repository has no file ${handler}, which \`handler\` names.`,
        same === undefined
          ? "Correct it, or commit the file."
          : `Did you mean ${same}? Set it: ${change(endpoint, "--handler", same)}`
      )
    }
    if (context !== "" && !handler.startsWith(`${context}/`)) {
      return failed(
        `The handler ${handler} is not in the build context, which is ${folderText(context)}.`,
        `Set the context to a folder that contains it: ${change(endpoint, "--context", folderOf(handler))}`
      )
    }
    return context === "" ? handler : handler.slice(context.length + 1)
  }
  const within = files.flatMap((file) =>
    context === "" ? [file] : file.startsWith(`${context}/`) ? [file.slice(context.length + 1)] : []
  )
  const handlers = within.filter((file) => HANDLER.test(file) && callsStart(read(inFolder(context, file)) ?? ""))
  const [first] = handlers
  if (first !== undefined && handlers.length === 1) return first
  return handlers.length > 1
    ? failed(
      `The repository has no Dockerfile, and several files that may be its handler: ${handlers.join(", ")}.`,
      `Name the handler: ${change(endpoint, "--handler", inFolder(context, first ?? ""))}`
    )
    : failed(
      `The repository has no Dockerfile, and ${folderText(context)} has no handler that calls start().`,
      `Commit a file Dockerfile, or name the handler's file, for which a Dockerfile is generated: ${
        change(endpoint, "--handler", "FILE")
      }`
    )
}

/** Decides what is built. */
export const make = (repository: Repository): BuildPlan | BuildFailed => {
  const { endpoint, files, settings } = repository
  const context = normal(settings.context ?? "")
  if (!has(files, context) || files.includes(context)) {
    const same = files.map(folderOf).find((folder) => folder.endsWith(`/${context}`))
    return failed(
      `The repository has no folder ${context}, which \`context\` names.`,
      same === undefined
        ? `Correct it, or unset it to use the repository's root: ${change(endpoint, "--context", "")}`
        : `Did you mean ${same}? Set it: ${change(endpoint, "--context", same)}`
    )
  }
  const dockerfile = normal(settings.dockerfile ?? "Dockerfile")
  if (files.includes(dockerfile)) return { context, dockerfile, handler: undefined }
  const others = files.filter((file) => DOCKERFILE.test(file))
  const inContext = inFolder(context, dockerfile)
  const other = others.includes(inContext) ? inContext : others[0]
  if (settings.dockerfile !== undefined || (other !== undefined && settings.handler === undefined)) {
    return failed(
      `The repository has no file ${dockerfile}${
        settings.dockerfile === undefined ? "" : ", which `dockerfile` names"
      }. The path is relative to ` +
        "the repository's root, not to the context.",
      other === undefined
        ? "Commit it, or correct the path."
        : `The repository has ${others.slice(0, 5).join(", ")}. Set it: ${change(endpoint, "--dockerfile", other)}`
    )
  }
  const handler = handlerOf(repository, context)
  return typeof handler === "string" ? { context, dockerfile: undefined, handler } : handler
}

/**
 * Explains a build that failed because a copied file was not found: names the setting, and the value with which the file would be found. Undefined
 * when the context has all copied files.
 */
export const explainCopy = (repository: Repository, plan: BuildPlan): BuildFailed | undefined => {
  const { endpoint, files, read } = repository
  if (plan.dockerfile === undefined) return undefined
  const { copied } = parse(read(plan.dockerfile) ?? "")
  const fits = (folder: string) => copied.every((source) => has(files, inFolder(folder, source)))
  const missing = copied.find((source) => !has(files, inFolder(plan.context, source)))
  if (missing === undefined) return undefined
  const places = files.flatMap((file) => {
    const at = `/${file}/`.indexOf(`/${missing}/`)
    return at === -1 ? [] : [normal(`/${file}/`.slice(0, at))]
  })
  const candidates = [
    folderOf(plan.dockerfile),
    ...places.sort((a, b) => a.split("/").length - b.split("/").length || (a < b ? -1 : 1)),
    ""
  ]
  const better = candidates.find(fits)
  const problem = `COPY ${missing} fails, because the build context is ${folderText(plan.context)}, which has no ${missing}.`
  if (better !== undefined) {
    return failed(
      `${problem} The repository has ${inFolder(better, missing)}.`,
      `Set the context to ${better === "" ? "the repository's root" : better}: ${change(endpoint, "--context", better)}`
    )
  }
  const [place] = places
  return place === undefined
    ? failed(`${problem} No folder of the repository has it at this commit.`, "Commit the file, or correct the Dockerfile.")
    : failed(
      `${problem} The repository has ${inFolder(place, missing)}, but no folder has all files that the Dockerfile copies.`,
      `Write the paths of COPY relative to ${folderText(plan.context)}.`
    )
}
