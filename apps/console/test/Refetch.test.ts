import { QueryClient, QueryObserver } from "@tanstack/react-query"
import { describe, expect, it } from "vitest"
import { refetchNow } from "../src/api/Refetch.ts"

/** A query whose responses wait until the test sends them. */
const start = () => {
  const client = new QueryClient()
  const requests: Array<(value: string) => void> = []
  const observer = new QueryObserver<string>(client, {
    queryKey: ["job"],
    queryFn: () => new Promise((respond) => requests.push(respond)),
    retry: false
  })
  const shown: Array<string | undefined> = []
  observer.subscribe(({ data }) => shown.push(data))
  return { client, requests, shown }
}

describe("a query that an event refreshes", () => {
  it("does not show a response from before the event, even if it is the first one", async () => {
    const { client, requests, shown } = start()
    const first = requests[0]
    const refreshed = refetchNow(client, ["job"])
    await expect.poll(() => requests.length).toBe(2)
    first?.("running")
    requests[1]?.("completed")
    await refreshed
    expect(client.getQueryData(["job"])).toBe("completed")
    expect(shown).not.toContain("running")
  })

  it("keeps its data until the new response arrives", async () => {
    const { client, requests, shown } = start()
    requests[0]?.("running")
    await expect.poll(() => shown.at(-1)).toBe("running")
    const refreshed = refetchNow(client, ["job"])
    await expect.poll(() => requests.length).toBe(2)
    expect(shown.at(-1)).toBe("running")
    requests[1]?.("completed")
    await refreshed
    expect(shown.at(-1)).toBe("completed")
  })
})
