/**
 * Performs programs with `fetch` and timers: Node, Deno, Bun, workers and browsers alike.
 *
 * An AbortSignal ends the request or the pause of the moment, and with it the program.
 */
import type { Answer, Call, Pause, Program, Rested, Silence } from "./Wire.ts"

/** What a request is made with. */
export type Fetch = typeof globalThis.fetch

const call = async (
  fetch: Fetch,
  { body, headers, method, timeout, url }: Call,
  signal: AbortSignal | undefined
): Promise<Answer | Silence> => {
  // Not `AbortSignal.any`, which keeps a short-lived signal alive as long as the caller's.
  const own = new AbortController()
  const give = () => own.abort(signal?.reason)
  signal?.addEventListener("abort", give, { once: true })
  let timedOut = false
  const timer = setTimeout(() => {
    timedOut = true
    own.abort()
  }, timeout)
  const start = performance.now()
  try {
    const response = await fetch(url, {
      method,
      headers: { ...headers },
      // The platform knows no cookies; a browser that sends them needs more of CORS.
      credentials: "omit",
      cache: "no-store",
      redirect: "manual",
      signal: own.signal,
      ...(body === undefined ? {} : { body })
    })
    const text = await response.text()
    return {
      _tag: "Answer",
      status: response.status,
      text,
      retryAfter: response.headers.get("retry-after") ?? undefined,
      location: response.headers.get("location") ?? undefined,
      took: performance.now() - start
    }
  } catch (cause) {
    signal?.throwIfAborted()
    return { _tag: "Silence", cause, timedOut, took: performance.now() - start }
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener("abort", give)
  }
}

const rest = async ({ atLeast, spread }: Pause, signal: AbortSignal | undefined): Promise<Rested> => {
  const took = atLeast + Math.random() * spread
  await new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener("abort", end)
      resolve()
    }
    const timer = setTimeout(end, took)
    signal?.addEventListener("abort", end, { once: true })
  })
  signal?.throwIfAborted()
  return { _tag: "Rested", took }
}

/** Performs a program to its end. Rejects with a `CallError`, or with the signal's reason. */
export const drive = async <A>(fetch: Fetch, program: Program<A>, signal: AbortSignal | undefined): Promise<A> => {
  let next = program.next()
  while (next.done !== true) {
    const step = next.value
    signal?.throwIfAborted()
    next = program.next(step._tag === "Call" ? await call(fetch, step, signal) : await rest(step, signal))
  }
  return next.value
}
