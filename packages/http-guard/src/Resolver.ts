/**
 * Resolves host names to addresses.
 *
 * It is a separate service, so that tests can define what a name resolves to, and so that connections use exactly the checked addresses,
 * because no other code resolves the name again.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { lookup } from "node:dns/promises"

/** The name has no address. */
export class NotResolved extends Schema.TaggedError<NotResolved>()("NotResolved", {
  host: Schema.String,
  detail: Schema.String,
  /** Whether a retry may succeed, because the name server did not respond. */
  temporary: Schema.Boolean
}) {}

/** Resolves names. */
export class Resolver extends Context.Service<Resolver, {
  /** All addresses of the name, at least one. */
  readonly resolve: (host: string) => Effect.Effect<ReadonlyArray<string>, NotResolved>
}>()("@stint/http-guard/Resolver") {}

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : String(error)

/** Resolves names like every other program on this machine, with the hosts file and the configured name servers. */
export const layer: Layer.Layer<Resolver> = Layer.succeed(Resolver, {
  resolve: (host) =>
    Effect.tryPromise({
      try: async () => {
        const found = await lookup(host, { all: true, order: "verbatim" })
        return found.map(({ address }) => address)
      },
      catch: (error) => {
        const code = codeOf(error)
        return new NotResolved({ host, detail: code, temporary: code === "EAI_AGAIN" || code === "ETIMEOUT" })
      }
    })
})

/** Resolves only the names in this table; other names do not exist. For tests. */
export const layerTable = (table: { readonly [host: string]: ReadonlyArray<string> }): Layer.Layer<Resolver> =>
  Layer.succeed(Resolver, {
    resolve: (host) => {
      const addresses = Object.hasOwn(table, host) ? table[host] : undefined
      return addresses === undefined
        ? Effect.fail(new NotResolved({ host, detail: "not in the resolver's table", temporary: false }))
        : Effect.succeed(addresses)
    }
  })
