/**
 * The pages for users who open the platform's address in a browser. They are separate from the routes of the API, because a server that only programs
 * call does not need them: the API reference adds three megabytes to a bundle.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as BrowserSessions from "../console/BrowserSessions.ts"
import * as ConsoleFiles from "../console/ConsoleFiles.ts"
import * as SessionRoutes from "../console/SessionRoutes.ts"
import * as ApiReference from "./ApiReference.ts"
import * as HomePage from "./HomePage.ts"

/** The sessions of browsers. Without a console, no cookie is read. */
const layerSessions = Layer.unwrap(Effect.map(ConsoleFiles.ConsoleFolder, (folder) =>
  folder === undefined
    ? Layer.empty
    : Layer.merge(BrowserSessions.layerMiddleware, SessionRoutes.layer).pipe(Layer.provide(BrowserSessions.layer))))

/** `/`, `/docs` and the console, for `Server.layerWith`. */
export const layer = Layer.mergeAll(HomePage.layer, ApiReference.layer, ConsoleFiles.layerRoutes, layerSessions).pipe(
  Layer.provide(ConsoleFiles.layer)
)

export {
  /** The folder with the console's built files. */
  ConsoleFolder
} from "../console/ConsoleFiles.ts"
