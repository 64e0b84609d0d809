/**
 * The form for a new schedule.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { useNavigate } from "@tanstack/react-router"
import * as Api from "../api/Api.ts"
import { schedules } from "../api/Schedules.ts"
import { ScheduleForm } from "../schedules/ScheduleForm.tsx"
import { Loaded } from "../ui/Loaded.tsx"

const NewSchedulePage = () => {
  const navigate = useNavigate()
  const client = useQueryClient()
  const query = useQuery({
    queryKey: ["schedules", "new"],
    queryFn: async ({ signal }) => {
      const [{ endpoints }, { schedules: all }] = await Promise.all([Api.overview(signal), schedules(signal)])
      return { endpoints: endpoints.map(({ id }) => id), taken: new Set(all.map(({ endpoint, name }) => `${endpoint}/${name}`)) }
    }
  })
  return (
    <>
      <h1>New schedule</h1>
      <Loaded query={query} rows={8}>
        {({ endpoints, taken }) =>
          endpoints.length === 0
            ? <p className="empty">There is no endpoint yet. A schedule submits jobs to one.</p>
            : (
              <ScheduleForm
                endpoints={endpoints}
                isTaken={(endpoint, name) => taken.has(`${endpoint}/${name}`)}
                onClose={() => void navigate({ to: "/console/schedules" })}
                onSaved={(endpoint, schedule) => {
                  void client.invalidateQueries({ queryKey: ["schedules"] })
                  void navigate({ to: "/console/schedules/$endpoint/$schedule", params: { endpoint, schedule } })
                }}
              />
            )}
      </Loaded>
    </>
  )
}

export default NewSchedulePage
