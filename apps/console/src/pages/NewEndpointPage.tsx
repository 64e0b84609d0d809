/**
 * The form for a new endpoint that is built from a Git repository. Saves the build settings, starts the first build, and opens its log.
 */
import type { BuildSettings } from "@stint/contract/Build"
import { useMutation, useQuery } from "@tanstack/react-query"
import { useNavigate } from "@tanstack/react-router"
import { useState } from "react"
import * as Api from "../api/Api.ts"
import { BuildForm } from "../endpoints/BuildForm.tsx"
import { Text } from "../ui/Fields.tsx"
import { Loaded, Problem } from "../ui/Loaded.tsx"

const problemOf = (id: string, taken: ReadonlySet<string>): string | undefined => {
  if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/.test(id)) {
    return "Write 1 to 63 letters, digits, - or _, beginning with a letter or a digit."
  }
  return taken.has(id) ? "This endpoint exists. Open it to build it from a repository." : undefined
}

const NewEndpointPage = () => {
  const navigate = useNavigate()
  const [id, setId] = useState("")
  const [isChecked, setChecked] = useState(false)
  const query = useQuery({ queryKey: ["overview"], queryFn: ({ signal }) => Api.overview(signal) })
  const { error, isPending, mutate } = useMutation({
    mutationFn: async (settings: BuildSettings) => {
      await Api.saveBuildSettings(id, settings)
      await Api.startBuild(id)
    },
    onSuccess: () => void navigate({ to: "/console/builds/$endpoint", params: { endpoint: id } })
  })
  return (
    <>
      <h1>New endpoint from a repository</h1>
      <Loaded query={query} rows={8}>
        {({ endpoints }) => {
          const problem = problemOf(id, new Set(endpoints.map((one) => one.id)))
          return (
            <BuildForm
              settings={null}
              save="Save and build"
              isSaving={isPending}
              onClose={() => void navigate({ to: "/" })}
              onSave={(settings) => {
                setChecked(true)
                if (problem === undefined) mutate(settings)
              }}
            >
              {error === null ? null : <Problem error={error} />}
              <Text
                label="Endpoint"
                value={id}
                placeholder="words"
                problem={isChecked ? problem : undefined}
                onChange={setId}
              />
            </BuildForm>
          )
        }}
      </Loaded>
    </>
  )
}

export default NewEndpointPage
