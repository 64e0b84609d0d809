/**
 * Sends the event that a run waits for.
 */
import type { Json } from "@stint/client"
import { useMutation, useQueryClient } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { type SubmitEvent, useId, useState } from "react"
import { sendEvent } from "../api/Runs.ts"
import { checkJson } from "../endpoints/JsonCheck.ts"
import { shortId } from "../format/Format.ts"
import { Problem } from "../ui/Loaded.tsx"

/** The form for an event with one name and key. */
export const EventForm = ({ endpoint, event: { key, name }, run }: {
  readonly endpoint: string
  readonly run: string
  readonly event: { readonly name: string; readonly key: string }
}) => {
  const field = useId()
  const client = useQueryClient()
  const [data, setData] = useState("{}")
  const checked = checkJson(data)
  const { data: receipt, error, isPending, mutate } = useMutation({
    mutationFn: () => {
      const value: Json = JSON.parse(data)
      return sendEvent(endpoint, { name, key, data: value })
    },
    onSettled: () => client.invalidateQueries({ queryKey: ["run", endpoint] })
  })
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    if (checked.isValid && !isPending) mutate()
  }
  return (
    <form className="event" onSubmit={submit}>
      <label htmlFor={field}>
        Data of the event <code>{name}</code>
        {key === "" ? null : (
          <>
            , key <code>{key}</code>
          </>
        )}
      </label>
      <textarea
        id={field}
        rows={4}
        value={data}
        spellCheck={false}
        aria-invalid={!checked.isValid}
        onChange={({ target }) => setData(target.value)}
      />
      {checked.isValid ? null : <p className="invalid">{checked.reason}</p>}
      <button type="submit" className="button primary" disabled={!checked.isValid || isPending}>Send the event</button>
      {error === null ? null : <Problem error={error} />}
      {receipt === undefined ? null : (
        <p role="status">
          {receipt.delivered === null
            ? "No run waits for this event any longer. It is kept for the next run that does."
            : receipt.delivered === run
            ? "Delivered to this run."
            : (
              <>
                Delivered to the run{" "}
                <Link to="/console/pipelines/$endpoint/$id" params={{ endpoint, id: receipt.delivered }}>
                  {shortId(receipt.delivered)}
                </Link>, which has waited longer.
              </>
            )}
        </p>
      )}
    </form>
  )
}
