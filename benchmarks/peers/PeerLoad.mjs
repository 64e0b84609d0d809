/** The load of a peer with a server: concurrent callers that submit jobs, until the peer's worker has counted all of them. */

/** Jobs that the worker has completed since the load began. */
export const makeLoad = () => {
  let completed = 0
  let expected = 0
  let onAll = () => {}
  return {
    /** Called by the worker for each job, or for several at once. */
    count: (jobs = 1) => {
      completed += jobs
      if (completed >= expected) onAll()
    },
    /** Submits all jobs, with `lanes` calls at a time, and waits until the worker has counted them. */
    run: async ({ jobs, lanes }, submit) => {
      completed = 0
      expected = jobs
      const all = new Promise((done) => onAll = done)
      let sent = 0
      const caller = async () => {
        while (sent < jobs) {
          sent += 1
          await submit()
        }
      }
      await Promise.all(Array.from({ length: lanes }, caller))
      await all
    }
  }
}

/** Waits until the store says that all jobs are completed. */
export const untilStored = async (isStored) => {
  while (!await isStored()) await new Promise((next) => setTimeout(next, 1))
}
