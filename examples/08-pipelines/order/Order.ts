/**
 * An order that a person approves: reserves and charges first, waits for up to a week, and undoes both when the answer is no or does not arrive.
 */
import { Pipeline } from "@stint/pipelines"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

/** The shop's systems. */
export class Shop extends Context.Service<Shop, {
  readonly reserve: (item: string, key: string) => Effect.Effect<{ readonly reservation: string }>
  readonly release: (reservation: string) => Effect.Effect<void>
  readonly charge: (cents: number, key: string) => Effect.Effect<{ readonly payment: string }>
  readonly refund: (payment: string) => Effect.Effect<void>
  readonly ship: (item: string) => Effect.Effect<string>
}>()("example-pipelines/Shop") {}

/**
 * A shop that exists in the log only. Like a real one, it knows a repeated call by its key: the same key is the same reservation and the same payment.
 */
export const layer: Layer.Layer<Shop> = Layer.succeed(Shop, {
  reserve: (item, key) => Effect.as(Effect.logInfo(`Reserved ${item}.`), { reservation: `reservation of ${key}` }),
  release: (reservation) => Effect.logInfo(`Released the ${reservation}.`),
  charge: (cents, key) => Effect.as(Effect.logInfo(`Charged ${cents} cents.`), { payment: `payment of ${key}` }),
  refund: (payment) => Effect.logInfo(`Refunded the ${payment}.`),
  ship: (item) => Effect.as(Effect.logInfo(`Shipped ${item}.`), `${item} is on its way`)
})

/** A person said no. Callers receive the message as the error of the run. */
export class OrderDeclined extends Schema.TaggedError<OrderDeclined>()("OrderDeclined", { message: Schema.String }) {}

const Approval = Schema.Struct({ approved: Schema.Boolean, by: Schema.String })

export const Order = Pipeline.make("order", {
  input: Schema.Struct({ id: Schema.String, item: Schema.String, cents: Schema.Int })
})
  .step(
    "reserve",
    ({ item }, _, { idempotencyKey }) => Effect.flatMap(Shop, (shop) => shop.reserve(item, idempotencyKey)),
    { undo: ({ reservation }) => Effect.flatMap(Shop, (shop) => shop.release(reservation)) }
  )
  .step(
    "charge",
    (_, { input }, { idempotencyKey }) => Effect.flatMap(Shop, (shop) => shop.charge(input.cents, idempotencyKey)),
    { retry: 3, timeout: "30 seconds", undo: ({ payment }) => Effect.flatMap(Shop, (shop) => shop.refund(payment)) }
  )
  .waitFor("approval", Approval, { key: ({ input }) => input.id, timeout: "7 days" })
  .step(
    "ship",
    ({ approved, by }, { input }) =>
      approved
        ? Effect.flatMap(Shop, (shop) => shop.ship(input.item))
        : Effect.fail(new OrderDeclined({ message: `${by} declined the order` }))
  )
  .end(Schema.String)
