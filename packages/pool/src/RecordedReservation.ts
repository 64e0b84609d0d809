/**
 * What pools record about a worker's place on its machine, so that the next platform keeps it (see `MachinePool`).
 */
import * as Schema from "effect/Schema"
import { type Reservation, reservationOf, type StartRequest } from "./WorkerPool.ts"

/** The fields of a record. */
export const fields = {
  /** What the worker occupies of the machine. Absent if its endpoint sets no limits. */
  reserved: Schema.optionalKey(Schema.Struct({
    gpus: Schema.Union([Schema.Int, Schema.Literal("all")]),
    cpus: Schema.Finite,
    memoryBytes: Schema.Int
  })),
  /** The GPUs that were assigned to it. */
  gpuIds: Schema.optionalKey(Schema.Array(Schema.String))
}

/** The values of {@link fields}. */
export interface RecordedReservation {
  readonly reserved?: Reservation
  readonly gpuIds?: ReadonlyArray<string>
}

/** The values for a worker that starts. */
export const of = ({ endpoint, gpuIds }: Pick<StartRequest, "endpoint" | "gpuIds">): RecordedReservation => {
  const reserved = reservationOf(endpoint.source)
  return { ...(reserved === undefined ? {} : { reserved }), ...(gpuIds === undefined ? {} : { gpuIds }) }
}
