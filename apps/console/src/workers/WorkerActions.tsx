/**
 * The buttons that drain and stop a worker.
 */
import type { WorkerOverview } from "@stint/contract/OverviewApi"
import { useQueryClient } from "@tanstack/react-query"
import * as Api from "../api/Api.ts"
import { shortId } from "../format/Format.ts"
import { Confirm } from "../ui/Confirm.tsx"
import { removable, removalText } from "./WorkerList.ts"

const NAMES = { drain: "Drain", stop: "Stop" } as const

/** The buttons that make sense in the worker's state. Each asks for confirmation. */
export const WorkerActions = ({ endpoint, worker }: { readonly endpoint: string; readonly worker: WorkerOverview }) => {
  const client = useQueryClient()
  return (
    <div className="actions">
      {removable(worker).map((how) => (
        <Confirm
          key={how}
          label={NAMES[how]}
          name={`${NAMES[how]} ${shortId(worker.id)} of ${endpoint}`}
          title={`${NAMES[how]} worker ${shortId(worker.id)} of ${endpoint}?`}
          body={removalText(how, worker)}
          verb={`${NAMES[how]} the worker`}
          danger={how === "stop"}
          action={() => Api.removeWorker(endpoint, worker.id, how)}
          onDone={() => {
            void client.invalidateQueries({ queryKey: ["workers"] })
            void client.invalidateQueries({ queryKey: ["endpoint", endpoint] })
          }}
        />
      ))}
    </div>
  )
}
