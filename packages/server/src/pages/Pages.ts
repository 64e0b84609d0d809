/**
 * The pages for people who open the platform's address in a browser. They are separate from the routes of the API, because a server that
 * only programs call does not need them: the API reference adds three megabytes to a bundle.
 */
import * as Layer from "effect/Layer"
import * as ApiReference from "./ApiReference.ts"
import * as HomePage from "./HomePage.ts"

/** `/` and `/docs`, for `Server.layerWith`. */
export const layer = Layer.merge(HomePage.layer, ApiReference.layer)
