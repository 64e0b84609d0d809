/**
 * Resolves the image of an endpoint to one image on this machine, and pulls it if it is missing.
 *
 * ```
 *   name:tag --on this machine?--> its id ----> checked: built for this machine ----> pinned for the endpoint
 *                 |  no                                                                 until its settings change
 *                 +--> pulled (one pull for all waiting workers)
 * ```
 *
 * A tag can move. All workers of an endpoint run the image that its tag named when the platform first used it,
 * until the endpoint's settings change or the platform restarts. The log names that image.
 */
import { pullText } from "@stint/contract/ImagePull"
import { PoolError, SpawnFailed } from "@stint/pool/PoolError"
import type { PullListener } from "@stint/pool/WorkerPool"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import process from "node:process"
import type { Engine, Image } from "./Engine.ts"
import { type EngineError, EngineRefused, isNotFound } from "./EngineError.ts"
import { unavailable } from "./EngineSocket.ts"
import * as PullProgress from "./PullProgress.ts"
import * as RegistryCredentials from "./RegistryCredentials.ts"

/** How often the progress of a pull is logged. */
const PROGRESS_INTERVAL = "5 seconds"

/** The names of this machine's architecture in images. */
const ARCHITECTURES: Partial<Record<NodeJS.Architecture, string>> = { x64: "amd64", arm64: "arm64", ia32: "386" }

/** The platform of images that this machine runs. */
export const machinePlatform = (): string => `linux/${ARCHITECTURES[process.arch] ?? process.arch}`

export interface Images {
  /** The id of the endpoint's image. Pulls the image if it is missing, and reports the pull to `listener`. */
  readonly resolve: (endpoint: string, image: string, listener?: PullListener) => Effect.Effect<string, PoolError>
  /** Forgets the image of an endpoint, so that the next start resolves its tag again. */
  readonly release: (endpoint: string) => void
}

const failed = (image: string, problem: string, hint: string) =>
  new PoolError({ reason: new SpawnFailed({ path: `The image ${image}`, problem, hint }) })

/** The image is only built for other machines. */
const otherMachine = (image: string, problem: string) => {
  const machine = machinePlatform()
  return failed(
    image,
    `${problem}, and this machine runs ${machine}`,
    `Build it for this machine: docker build --platform ${machine} --tag ${image} . (and push it, if it comes from a registry).`
  )
}

/** Explains why a pull failed. */
const pullError = (image: string, files: ReadonlyArray<string>, error: EngineError, hasCredentials: boolean) => {
  if (error._tag === "EngineUnreachable") return unavailable(error)
  const words = error.problem
  const registry = RegistryCredentials.registryOf(image)
  if (
    /unauthorized|authentication required|denied|forbidden|incorrect username or password|invalid username\/password|\b40[13]\b/i
      .test(words)
  ) {
    const where = files.join(" or ")
    return failed(
      image,
      hasCredentials ? `${registry} rejects the credentials (${words})` : `${registry} requires credentials (${words})`,
      hasCredentials
        ? `Correct the entry for ${registry} in ${where}: docker login ${registry}.`
        : `Add credentials for ${registry} to ${where}: docker login ${registry}. If it needs none, correct the image's name.`
    )
  }
  // An index lists an image for each machine. Podman's words, and Docker's.
  if (/no image found in (?:manifest list|image index)|no matching manifest for/i.test(words)) {
    return otherMachine(image, `it is only built for other machines (${words})`)
  }
  if (/manifest unknown|not found|no such image|does not exist/i.test(words)) {
    return failed(image, `it does not exist (${words})`, "Correct the image's name and tag, or push the image.")
  }
  if (/no space left/i.test(words)) {
    return failed(
      image,
      `the engine's disk is full (${words})`,
      "Free space in the engine's storage: docker image prune, or podman image prune."
    )
  }
  return failed(image, `it cannot be pulled (${words})`, "Check the image's name, and whether this machine reaches the registry.")
}

/** Fails when this machine cannot run the image. */
const checkPlatform = (image: string, { Architecture, Os }: Image) => {
  const built = `${Os}/${Architecture}`
  // Some tools that import a file system leave the architecture empty.
  if (built === machinePlatform() || (Os === "linux" && Architecture === "")) return Effect.void
  return Effect.fail(otherMachine(image, `it is built for ${built}`))
}

/** A pull in progress. */
interface Pull {
  readonly fiber: Fiber.Fiber<Image, PoolError>
  readonly progress: PullProgress.PullProgress
}

/** Options of the images. */
export interface Options {
  /** Files with credentials; the first that exists is used. */
  readonly credentials: ReadonlyArray<string>
}

export const make = Effect.fnUntraced(function*(
  engine: Effect.Effect<Engine, PoolError>,
  { credentials }: Options
): Effect.fn.Return<Images, never, Scope.Scope> {
  const scope = yield* Scope.Scope
  const pinned = new Map<string, { readonly image: string; readonly id: string }>()
  const pulling = new Map<string, Pull>()

  const pullNow = Effect.fnUntraced(function*(engine: Engine, image: string, progress: PullProgress.PullProgress) {
    const header = yield* RegistryCredentials.headerFor(image, credentials)
    const startedAt = yield* Clock.currentTimeMillis
    yield* Effect.logInfo(`Pulling the image ${image}.`)
    // Without a tag, some engines pull all tags.
    const reference = /@|:[^/]*$/.test(image) ? image : `${image}:latest`
    const report = Effect.suspend(() => Effect.logInfo(`Pulling the image ${image}: ${pullText(progress.current())}.`))
    yield* engine.pull(reference, header, (chunk) => Effect.sync(() => progress.push(chunk))).pipe(
      Effect.flatMap(() => {
        const error = progress.error()
        return error === undefined
          ? Effect.void
          : Effect.fail(new EngineRefused({ status: 0, problem: error.replace(/\.$/, "") }))
      }),
      Effect.raceFirst(Effect.andThen(
        Effect.sleep(PROGRESS_INTERVAL),
        Effect.andThen(Effect.repeat(report, Schedule.spaced(PROGRESS_INTERVAL)), Effect.never)
      )),
      Effect.mapError((error) => pullError(image, credentials, error, header !== undefined))
    )
    const pulled = yield* Effect.mapError(
      engine.image(image),
      (error) => pullError(image, credentials, error, header !== undefined)
    )
    const seconds = Math.round(((yield* Clock.currentTimeMillis) - startedAt) / 100) / 10
    yield* Effect.logInfo(`Pulled the image ${image} in ${seconds} s.`)
    return pulled
  })

  /** One pull for all callers. It continues when a caller is interrupted. */
  const begin = (engine: Engine, image: string) =>
    Effect.suspend(() => {
      const running = pulling.get(image)
      if (running !== undefined) return Effect.succeed(running)
      const progress = PullProgress.make()
      return pullNow(engine, image, progress).pipe(
        Effect.ensuring(Effect.sync(() => pulling.delete(image))),
        Effect.forkIn(scope),
        Effect.map((fiber): Pull => ({ fiber, progress })),
        Effect.tap((begun) => Effect.sync(() => pulling.set(image, begun)))
      )
    })

  const pull = Effect.fnUntraced(function*(engine: Engine, image: string, listener: PullListener | undefined) {
    const { fiber, progress } = yield* begin(engine, image)
    listener?.began(progress.current)
    return yield* Effect.ensuring(Fiber.join(fiber), Effect.sync(() => listener?.ended()))
  })

  const warned = new Map<string, string>()

  const warnOfTag = (endpoint: string, image: string, { Id, RepoDigests }: Image) => {
    if (image.includes("@sha256:") || warned.get(endpoint) === image + Id) return Effect.void
    warned.set(endpoint, image + Id)
    const digest = RepoDigests?.find((one) => one.includes("@sha256:"))
    return Effect.logWarning(
      `The image ${image} of endpoint ${endpoint} is a name that can later refer to another image. Its workers run ${
        digest ?? Id
      } until the ` +
        `endpoint's settings change or the platform starts again. ${
          digest === undefined
            ? "To fix it, push the image to a registry and name it by digest."
            : `To fix it, set the image to ${digest}.`
        }`
    )
  }

  return {
    release: (endpoint) => {
      pinned.delete(endpoint)
    },
    resolve: Effect.fnUntraced(function*(endpoint, image, listener) {
      const known = pinned.get(endpoint)
      if (known?.image === image) return known.id
      const running = yield* engine
      const found = yield* Effect.catch(
        running.image(image),
        (error) => isNotFound(error) ? pull(running, image, listener) : Effect.fail(pullError(image, credentials, error, false))
      )
      yield* checkPlatform(image, found)
      yield* warnOfTag(endpoint, image, found)
      pinned.set(endpoint, { image, id: found.Id })
      return found.Id
    })
  }
})
