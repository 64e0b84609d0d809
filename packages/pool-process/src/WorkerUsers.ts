/**
 * The users that workers run as: the platform's, one for all endpoints, or one for each endpoint from a range of ids.
 *
 * ```
 *   dataDir/worker-ids.json     which endpoint has which id; only the platform can read it
 *   cacheDir/homes/<id>/        the endpoint's home folder, with its compile cache; only its workers can read it
 * ```
 *
 * The ids of endpoints are stored, so the workers of an endpoint can read what earlier workers wrote, even after a restart of the platform. The
 * id of a deleted endpoint, or one that an endpoint had before the range was changed, is never given to another endpoint, which could otherwise
 * read the files that are left. When the file of ids is lost, nothing says whose files the home folders contain, so a newly given id starts with
 * an empty home folder.
 */
import { NoCapacity, PoolError, PoolUnavailable } from "@stint/pool/PoolError"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { chownSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { WorkerUser } from "./WorkerUser.ts"

/** A range of user and group ids that no account on the machine has. Both ends are included. */
export interface WorkerIds {
  readonly first: number
  readonly last: number
}

/** Where the ids and the home folders are stored. */
export interface Options {
  readonly users: WorkerUser | WorkerIds | undefined
  readonly dataDir: string
  /** The platform's cache folder, which all of these users can enter. */
  readonly cacheDir: string
}

export interface WorkerUsers {
  /** The user of an endpoint's workers; undefined: the platform's. Fails when no id is left or it cannot be stored. */
  readonly of: (endpoint: string) => Effect.Effect<WorkerUser | undefined, PoolError>
  /** Whether each endpoint has its own user, with a home folder that contains its compile cache. */
  readonly isPerEndpoint: boolean
}

const Ids = Schema.fromJsonString(Schema.Record(Schema.String, Schema.Int))
const decodeIds = Schema.decodeUnknownSync(Ids)
const encodeIds = Schema.encodeSync(Ids)

const FILE = "worker-ids.json"

const problemOf = (cause: unknown): string => cause instanceof Error ? cause.message : String(cause)

/** Whether these are ids for each endpoint. */
export const isRange = (users: WorkerUser | WorkerIds): users is WorkerIds => "first" in users

const makeRange = (ids: WorkerIds, { cacheDir, dataDir }: Options): Effect.Effect<WorkerUsers, PoolError> =>
  Effect.try({
    try: () => {
      const file = join(dataDir, FILE)
      const assigned = new Map<string, number>(existsSync(file) ? Object.entries(decodeIds(readFileSync(file, "utf8"))) : [])
      const taken = new Set(assigned.values())
      const known = new Map<string, WorkerUser>()

      const homeOf = (id: number) => join(cacheDir, "homes", String(id))
      const isInRange = (id: number) => id >= ids.first && id <= ids.last

      /** Returns a new id, and removes what another data folder left in its home folder. */
      const newId = (): number | undefined => {
        let id = ids.first
        while (taken.has(id)) id += 1
        if (id > ids.last) return undefined
        rmSync(homeOf(id), { recursive: true, force: true })
        return id
      }

      /** Stores an id before the first worker with it starts. */
      const assign = (endpoint: string): number | undefined => {
        const earlier = assigned.get(endpoint)
        if (earlier !== undefined && isInRange(earlier)) return earlier
        // After a change to the range, the endpoint gets another id, or one that it had before. No endpoint's name contains a space.
        const [, former] = [...assigned].find(([key, id]) => key.startsWith(`${endpoint} `) && isInRange(id)) ?? []
        const id = former ?? newId()
        if (id === undefined) return undefined
        const added: ReadonlyArray<readonly [string, number]> = [
          ...(earlier === undefined ? [] : [[`${endpoint} ${earlier}`, earlier] as const]),
          [endpoint, id]
        ]
        writeFileSync(`${file}.new`, encodeIds(Object.fromEntries([...assigned, ...added])), { mode: 0o600 })
        renameSync(`${file}.new`, file)
        for (const [key, one] of added) assigned.set(key, one)
        taken.add(id)
        return id
      }

      const userOf = (endpoint: string): WorkerUser | undefined => {
        const uid = assign(endpoint)
        if (uid === undefined) return undefined
        const home = homeOf(uid)
        mkdirSync(home, { recursive: true, mode: 0o700 })
        chownSync(home, uid, uid)
        return { uid, gid: uid, name: `stint-${uid}`, home }
      }

      return {
        isPerEndpoint: true,
        of: (endpoint) =>
          Effect.gen(function*() {
            const user = known.get(endpoint) ?? (yield* Effect.try({
              try: () => userOf(endpoint),
              catch: (cause) =>
                new PoolError({
                  reason: new PoolUnavailable({
                    problem: `the user of the endpoint's workers cannot be stored (${problemOf(cause)})`,
                    hint: "Make the data folder and the cache folder writable and free space."
                  })
                })
            }))
            if (user === undefined) {
              return yield* new PoolError({
                reason: new NoCapacity({
                  problem: `each of the ${
                    ids.last - ids.first + 1
                  } ids of STINT_WORKER_USER belongs to an endpoint. Use a larger range`
                })
              })
            }
            known.set(endpoint, user)
            return user
          })
      }
    },
    catch: (cause) =>
      new PoolError({
        reason: new PoolUnavailable({
          problem: `${join(dataDir, FILE)} cannot be read (${problemOf(cause)})`,
          hint:
            "It says which endpoint's workers run as which user. Restore it from a copy. Without a copy, delete it: endpoints then get " +
            "each other's users, with empty home folders."
        })
      })
  })

/** Reads the stored ids. */
export const make = (options: Options): Effect.Effect<WorkerUsers, PoolError> => {
  const { users } = options
  return users !== undefined && isRange(users)
    ? makeRange(users, options)
    : Effect.succeed({ of: () => Effect.succeed(users), isPerEndpoint: false })
}
