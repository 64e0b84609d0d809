/**
 * Alerts, if their receivers are configured. Otherwise no module is loaded and nothing is counted.
 */
import type * as AlertWatch from "@stint/alerts/AlertWatch"
import type { GuardedHttp } from "@stint/http-guard/GuardedHttp"
import type { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import type { PublicAddress } from "@stint/server/PublicAddress"
import type { BuildStore } from "@stint/store/BuildStore"
import type { EndpointStore } from "@stint/store/EndpointStore"
import type { JobStore } from "@stint/store/JobStore"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { AlertSettings } from "../config/AlertConfig.ts"
import * as OwnedEndpoints from "./OwnedEndpoints.ts"

/** What alerts read. */
type Watched = BuildStore | EndpointStore | JobStore | WorkerRegistry | PublicAddress | GuardedHttp

/** The settings, and the pace of the checks. */
export type Options = AlertSettings & Pick<AlertWatch.Options, "interval" | "resolve">

/** The alerts of the endpoints whose workers this node starts. `timeout`: of one attempt to send. */
export const layer = (
  settings: Option.Option<Options>,
  timeout: Duration.Duration
): Layer.Layer<never, never, Watched> =>
  Option.match(settings, {
    onNone: () => Layer.empty,
    onSome: ({ secret, urls, ...options }) =>
      Layer.unwrap(Effect.map(
        Effect.promise(() => import("@stint/alerts/AlertWatch")),
        ({ layer }) => layer({ ...options, receivers: { urls, secret, timeout } }).pipe(Layer.provide(OwnedEndpoints.layer))
      ))
  })
