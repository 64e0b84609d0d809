/** Errors of requests. */
import { Forbidden as ForbiddenReason, GuardedHttpError } from "@stint/http-guard/GuardedHttpError"
import { NotResolved } from "@stint/http-guard/Resolver"

/** The guard forbids the address. */
export const forbidden = new GuardedHttpError({
  url: "http://a.example/",
  reason: new ForbiddenReason({ host: "a.example", address: "10.0.0.7", range: "private (10.0.0.0/8)" })
})

/** The name does not exist. */
export const notResolved = new GuardedHttpError({
  url: "http://a.example/",
  reason: new NotResolved({ host: "a.example", detail: "ENOTFOUND", temporary: false })
})
